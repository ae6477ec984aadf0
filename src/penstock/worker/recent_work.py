"""A worker's report of its last five minutes: rates, durations, failures and current runs."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple

from penstock.worker.counters import BUCKETS, HandlerCounters
from penstock.worker.runner import Runner

WINDOW_SECONDS: Final = 300.0
LONGEST_RUNS: Final = 50
"""The largest number of runs in a report, the longest first. A report is limited to 64 KB."""


class _Totals(NamedTuple):
    """The counters of a queue at one moment."""

    at: float
    done: int
    failed: int
    runs: tuple[int, ...]  # as `Seconds.counts`


class RecentWork:
    """Compares the counters of one queue with those of five minutes ago."""

    def __init__(self, counters: HandlerCounters, now: float | None = None) -> None:
        self._counters = counters
        self._past: deque[_Totals] = deque()
        self._past.append(self._totals(monotonic() if now is None else now))

    def measure(self, now: float | None = None) -> dict[str, float]:
        """Rates for a minute, and percentiles of the duration. Empty if there were no runs."""
        current = self._totals(monotonic() if now is None else now)
        while len(self._past) > 1 and self._past[1].at <= current.at - WINDOW_SECONDS:
            self._past.popleft()
        before = self._past[0]
        self._past.append(current)
        runs = [new - old for new, old in zip(current.runs, before.runs, strict=True)]
        if not any(runs):
            return {}
        minutes = max(current.at - before.at, 1.0) / 60
        return {
            "done_per_minute": round((current.done - before.done) / minutes, 1),
            "failed_per_minute": round((current.failed - before.failed) / minutes, 1),
            "p50_seconds": percentile(runs, 0.5),
            "p95_seconds": percentile(runs, 0.95),
        }

    def _totals(self, now: float) -> _Totals:
        counters = self._counters
        return _Totals(now, counters.done, counters.failed, tuple(counters.run.counts))


def percentile(counts: Sequence[int], share: float) -> float:
    """A quantile of a histogram with the bounds `BUCKETS`, interpolated within its bucket."""
    wanted = share * sum(counts)
    totals = [sum(counts[: number + 1]) for number in range(len(counts))]
    bucket = min(bisect_right(totals, wanted), len(counts) - 1)
    while bucket and not counts[bucket]:  # the share 1 is the end of the last bucket that is used
        bucket -= 1
    if bucket >= len(BUCKETS):
        return BUCKETS[-1]
    low = BUCKETS[bucket - 1] if bucket else 0.0
    within = (wanted - (totals[bucket] - counts[bucket])) / counts[bucket]
    return round(low + (BUCKETS[bucket] - low) * min(within, 1.0), 4)


def current_runs(runners: Sequence[Runner]) -> dict[str, list[dict[str, Any]]]:
    """The messages in their handlers by queue, the longest runs first."""
    now = perf_counter()
    runs = sorted(
        (
            (now - delivery._begun, runner.queue, delivery.id, delivery.attempt)
            for runner in runners
            for delivery in runner.running
        ),
        reverse=True,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for seconds, queue, id, attempt in runs[:LONGEST_RUNS]:
        # An id as text: JavaScript rounds whole numbers of this size.
        run = {"id": str(id), "attempt": attempt, "seconds": round(seconds, 1)}
        found.setdefault(queue, []).append(run)
    return found
