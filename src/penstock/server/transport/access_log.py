"""The access log: one line for each request, with caller, route and status."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.types import Scope

from penstock.server.transport.exchange import Exchange

_MOST: Final = 1000


class AccessLogEntry(msgspec.Struct):
    """The logged fields. The query string is left out, because it may contain private data."""

    at: datetime
    request_id: str
    peer: str
    actor: str | None
    method: str
    path: str
    status: int
    bytes: int
    ms: float


_encode: Final = msgspec.json.Encoder().encode


class AccessLog:
    """JSON lines on stderr, flushed a few times a second, because a write takes 10 us."""

    def __init__(self, write: Callable[[str], Any] | None = None) -> None:
        self._write = write or _to_stderr
        self._lines: list[bytes] = []

    def add(self, scope: Scope, exchange: Exchange) -> None:
        line = AccessLogEntry(
            datetime.now(UTC),
            exchange.request_id,
            exchange.address,
            exchange.actor,
            scope["method"],
            scope["path"],
            exchange.status,
            exchange.sent,
            round((time.perf_counter() - exchange.started) * 1000, 2),
        )
        self._lines.append(_encode(line))
        if len(self._lines) >= _MOST:
            self.flush()

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._write(b"\n".join(lines).decode("utf-8") + "\n")


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
