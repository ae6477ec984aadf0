"""What the queues hold and how they go, for Prometheus.

They are looked at when somebody asks, at most every five seconds, in five queries whatever the
number of queues; what is too much to count is estimated or sampled, so that a look stays cheap at
millions of messages. Every server of a database has the same numbers: scrape one, or take the max.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock import browsing
from penstock.queue import QueueStats
from penstock.server.database import Database
from penstock.server.exchange import log
from penstock.sighting import QUANTILES, Pace, Times

Q = TypeVar("Q", QueueStats, Pace, Times)
LOOK_SECONDS: Final = 5.0
STATES: Final = ("ready", "scheduled", "leased", "dead")


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look; not up is a database that did not answer."""

    up: bool = False
    counters: tuple[int, int] = (0, 0)
    stats: list[QueueStats] = field(default_factory=list)
    finished: list[Pace] = field(default_factory=list)
    failed: list[Pace] = field(default_factory=list)
    lost: list[Pace] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)


class QueueMetrics:
    """`look` asks the database, `of` tells."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at = -1e9
        self._looking = asyncio.Lock()
        self._seen = _Seen()

    async def look(self) -> None:
        # Who asks while somebody looks waits: before the first look, nothing would seem up.
        async with self._looking:
            if time.monotonic() - self._looked_at >= LOOK_SECONDS:
                await self._look()
                self._looked_at = time.monotonic()

    async def _look(self) -> None:
        run = self._database.run
        try:
            self._seen = _Seen(
                True,
                await run(browsing.counters()),
                await run(browsing.all_stats()),
                await run(browsing.recent()),
                await run(browsing.recent_attempts()),
                await run(browsing.recent_lost_leases()),
                await run(browsing.recent_times()),
            )
        except Exception as error:
            log.debug("no numbers of the queues: %s", error)
            self._seen = _Seen()

    def of(self, shown: Callable[[str], bool]) -> Collector:
        """The numbers of the queues that are to be shown, by name."""
        return _Shown(self._seen, shown)


class _Shown(Collector):
    """What one caller gets to see of a look."""

    def __init__(self, seen: _Seen, shown: Callable[[str], bool]) -> None:
        self._seen = seen
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        seen = self._seen
        yield GaugeMetricFamily(
            "penstock_database_up", "1 while the database answers.", int(seen.up)
        )
        if not seen.up:
            return
        ids, rescans = seen.counters
        yield CounterMetricFamily(
            "penstock_enqueued", "Ids of messages given out, in the whole database.", ids
        )
        yield CounterMetricFamily(
            "penstock_rescans_that_found",
            "How often the safety net has found a message that no claim had seen.",
            rescans,
        )
        finished, failed, lost = map(self._only, (seen.finished, seen.failed, seen.lost))
        times = self._only(seen.times)
        yield from _held(self._only(seen.stats))
        yield _rate("finished", "Messages that ended a second, by state reached.", finished)
        yield _rate("failed_attempts", "Attempts that failed a second.", failed)
        yield _rate("leases_lost", "Leases that ran out a second.", lost)
        yield _times("wait", "Seconds from enqueue to first claim, of what finished.",
                     [(each.queue, each.waited) for each in times])  # fmt: skip
        yield _times("work", "Seconds from last claim to the end, of what finished.",
                     [(each.queue, each.worked) for each in times])  # fmt: skip

    def _only(self, found: Sequence[Q]) -> list[Q]:
        return [each for each in found if self._shown(each.queue)]


def _held(stats: Sequence[QueueStats]) -> Iterator[Metric]:
    messages = GaugeMetricFamily(
        "penstock_queue_messages", "Messages in each state.", labels=["queue", "state"]
    )
    oldest = GaugeMetricFamily(
        "penstock_queue_oldest_ready_seconds", "Age of the oldest ready message.", labels=["queue"]
    )
    for each in stats:
        for state in STATES:
            messages.add_metric([each.queue, state], getattr(each, state))
        oldest.add_metric([each.queue], each.oldest_ready_seconds or 0)
    yield messages
    yield oldest


def _rate(name: str, text: str, paces: Sequence[Pace]) -> Metric:
    """Of the last five minutes, or of as long as the sample reaches back."""
    labels = ["queue", "state"] if name == "finished" else ["queue"]
    rates = GaugeMetricFamily(f"penstock_queue_{name}_per_second", text, labels=labels)
    for each in paces:
        values = [each.queue, each.state] if name == "finished" else [each.queue]
        rates.add_metric(values, each.count / max(each.seconds, 1))
    return rates


def _times(name: str, text: str, found: Sequence[tuple[str, Sequence[float]]]) -> Metric:
    times = GaugeMetricFamily(f"penstock_queue_{name}_seconds", text, labels=["queue", "quantile"])
    for queue, values in found:
        for quantile, value in zip(QUANTILES, values, strict=True):
            times.add_metric([queue, str(quantile)], value)
    return times
