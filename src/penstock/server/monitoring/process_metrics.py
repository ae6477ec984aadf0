"""The counters of a server process, and their sum over the processes of one machine.

Processes share one port, so a scrape reaches any of them. Every second each process writes its
counters into a shared directory, and each reports the sum. The counters of a dead process stay
there, so sums never decrease.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
NOTE_SECONDS: Final = 1.0


def _no_buckets() -> list[int]:
    return [0] * (len(BUCKETS) + 1)


class Answers(msgspec.Struct):
    """The number and the durations of responses of one kind.

    prometheus_client's counters take 8 us for each request, and this a tenth of that."""

    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = msgspec.field(default_factory=_no_buckets)

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1

    def add_all(self, other: Answers) -> None:
        self.count += other.count
        self.seconds += other.seconds
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]


class Numbers(msgspec.Struct):
    """Responses by method, route and status, messages by outcome, and long polls."""

    answers: dict[tuple[str, str, int], Answers] = {}
    messages: dict[str, int] = {}
    waiting: int = 0

    def add_all(self, other: Numbers) -> None:
        for key, answers in other.answers.items():
            self.answers.setdefault(key, Answers()).add_all(answers)
        for how, count in other.messages.items():
            self.messages[how] = self.messages.get(how, 0) + count
        self.waiting += other.waiting


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Numbers).decode


class Notes:
    """The counters of this process, in the shared directory if there are other processes."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._own = None if directory is None else directory / str(os.getpid())

    async def keep(self, numbers: Numbers) -> None:
        """Write them every second until cancelled."""
        while self._own is not None:
            self.write(numbers)
            await asyncio.sleep(NOTE_SECONDS)

    def write(self, numbers: Numbers) -> None:
        if self._own is None:
            return
        new = self._own.with_suffix(".new")
        with suppress(OSError):  # the disk is full: the previous values stay
            new.write_bytes(_encode(numbers))
            new.replace(self._own)

    def sum(self, own: Numbers) -> Numbers:
        """The current counters of this process, and the last ones of the others."""
        total = Numbers()
        total.add_all(own)
        for path in () if self._directory is None else self._directory.iterdir():
            if path == self._own or path.suffix:
                continue
            with suppress(OSError, msgspec.DecodeError):
                noted = _decode(path.read_bytes())
                if not _lives(int(path.name)):
                    noted.waiting = 0
                total.add_all(noted)
        return total


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
