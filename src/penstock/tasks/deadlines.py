"""Deadlines of many futures that share a few timers.

With a timer for each of 3,000 waiters, a tenth of the time that a result costs went into timers
(`penstock bench tasks`).
"""

from __future__ import annotations

import asyncio
from math import ceil
from time import monotonic
from typing import Any, Final

_IN_SECOND: Final = 100  # a future fails up to 10 ms after its deadline, and never before


class Deadlines:
    """Futures that fail with TimeoutError at a moment of `time.monotonic`."""

    def __init__(self) -> None:
        self._due: dict[int, _Due] = {}

    def add(self, future: asyncio.Future[Any], ends_at: float) -> None:
        moment = ceil(ends_at * _IN_SECOND)
        due = self._due.get(moment)
        if due is None:
            pause = moment / _IN_SECOND - monotonic()
            timer = future.get_loop().call_later(pause, self._expire, moment)
            due = self._due[moment] = _Due(timer)
        due.futures.append(future)

    def prune(self) -> None:
        """Forget futures that are done, and timers without futures."""
        for moment, due in list(self._due.items()):
            due.futures = [future for future in due.futures if not future.done()]
            if not due.futures:
                due.timer.cancel()
                del self._due[moment]

    def _expire(self, moment: int) -> None:
        for future in self._due.pop(moment).futures:
            if not future.done():
                future.set_exception(TimeoutError())


class _Due:
    """What is due at one moment, and its timer."""

    __slots__ = ("futures", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.futures: list[asyncio.Future[Any]] = []
