"""Counts the bytes of answers that callers have not read yet, so that slow readers take no more
memory than the settings allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.server.settings import ServerSettings
from penstock.server.transport.problems import HttpError

# Smaller answers are never refused: the buffers of the connections have room for them.
LARGE_BYTES: Final = 64 * 1024


class UnsentAnswers:
    """The answers of one process: in the write buffers of slow connections, and those that wait
    for these buffers."""

    def __init__(self, settings: ServerSettings) -> None:
        self._most = settings.answers_bytes
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another answer."""
        return self.bytes > self._most

    def check(self, more: int = 0) -> None:
        """HttpError if there is no room for another answer. One answer always has room."""
        if self.bytes and self.bytes + more > self._most:
            raise HttpError(
                503,
                "ServerBusy",
                "the answers that callers have not read yet exceed the server's limit",
                hint="Try again in a moment, ask for less, and read answers at once.",
                headers={"Retry-After": "1"},
            )

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Count an answer that waits for its connection."""
        self.bytes += count
        try:
            yield
        finally:
            self.bytes -= count
