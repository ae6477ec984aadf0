"""What the handlers of a process have seen: how many, which, and how late."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from array import array
from typing import Any

_RECORD = struct.Struct("=qd")


class Recorder:
    """Counts in memory; with a ledger, in a file as well, which outlives a kill -9."""

    def __init__(self, expect: int = 0, mark: int = 0, ledger: str | None = None) -> None:
        self.numbers = array("q")
        self.called = array("d")
        self.picked = array("d")
        self._expect = expect
        self._mark = mark
        self._mark_at: float | None = None
        self._done_at: float | None = None
        self._done = asyncio.Event()
        self._ledger = (
            None if ledger is None else os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        )

    def take(self, number: int, called: float) -> None:
        now = time.monotonic()
        self.numbers.append(number)
        self.called.append(called)
        self.picked.append(now)
        if self._ledger is not None:
            os.write(self._ledger, _RECORD.pack(number, now))
        count = len(self.numbers)
        if count == self._mark:
            self._mark_at = now
        if count == self._expect:
            self._done_at = now
            self._done.set()

    async def wait(self, seconds: float) -> None:
        """Until as many have come as were expected, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._done.wait()
        except TimeoutError:
            pass

    def report(self) -> dict[str, Any]:
        return {
            "handled": len(self.numbers),
            "distinct": len(set(self.numbers)),
            "now": time.monotonic(),
            "mark_at": self._mark_at,
            "done_at": self._done_at,
        }

    def latencies(self, after: float, before: float) -> dict[str, Any]:
        """From the call of enqueue to the beginning of the handler; milliseconds."""
        late = sorted(
            (picked - called) * 1000
            for called, picked in zip(self.called, self.picked, strict=True)
            if after <= called < before
        )
        if not late:
            return {"count": 0}

        def percentile(share: float) -> float:
            return round(late[min(len(late) - 1, int(len(late) * share))], 3)

        return {
            "count": len(late),
            "p50": percentile(0.5),
            "p95": percentile(0.95),
            "p99": percentile(0.99),
            "max": round(late[-1], 3),
        }


def read_ledger(path: str) -> list[tuple[int, float]]:
    """(number, when) of each message handled, in order."""
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) - len(data) % _RECORD.size
    return list(_RECORD.iter_unpack(data[:whole]))
