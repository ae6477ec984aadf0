"""What the handlers of a queue have done, as plain numbers, because counting must be cheap."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
"""Upper bounds in seconds. One more bucket has the longer runs."""


class Seconds:
    """A histogram."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class HandlerCounters:
    """The number of runs by outcome, their durations, and how long their messages waited."""

    def __init__(self) -> None:
        self.done = 0
        self.retried = 0
        self.snoozed = 0
        self.rejected = 0
        self.lost = 0
        self.run = Seconds()
        self.wait = Seconds()

    @property
    def failed(self) -> int:
        return self.retried + self.rejected

    def outcomes(self) -> dict[str, int]:
        return {
            "done": self.done,
            "retry": self.retried,
            "snooze": self.snoozed,
            "reject": self.rejected,
            "lost": self.lost,
        }
