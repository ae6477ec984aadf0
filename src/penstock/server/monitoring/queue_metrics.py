"""What the queues hold and how they go, for Prometheus.

They are read when somebody asks, at most every five seconds, in seven queries whatever the number
of queues. Messages are counted exactly, since alerts depend on them. That reads all of them, so the
database rests for 20 times as long as the last reading took. Every server of a database has the
same numbers: scrape one, or take the max.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.commands import read
from penstock.commands.read.analytics import LakeGlance, lakes
from penstock.model.monitoring import QUANTILES, FinishRate, Latencies
from penstock.model.queue import QueueStats
from penstock.server.database import Database
from penstock.server.transport.exchange import log

Q = TypeVar("Q", QueueStats, FinishRate, Latencies)
LOOK_SECONDS: Final = 5.0
REST: Final = 20  # times as long as the last reading took
STATES: Final = ("ready", "scheduled", "leased", "dead")


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look; not up is a database that did not answer."""

    up: bool = False
    counters: tuple[int, int] = (0, 0)
    stats: list[QueueStats] = field(default_factory=list)
    finished: list[FinishRate] = field(default_factory=list)
    failed: list[FinishRate] = field(default_factory=list)
    lost: list[FinishRate] = field(default_factory=list)
    times: list[Latencies] = field(default_factory=list)
    lakes: list[LakeGlance] = field(default_factory=list)


class QueueMetrics:
    """`look` asks the database, `of` tells."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at = -1e9
        self._cost = 0.0
        self._looking = asyncio.Lock()
        self._seen = _Seen()

    async def look(self) -> None:
        # Who asks while somebody looks waits: before the first look, nothing would seem up.
        async with self._looking:
            begun = time.monotonic()
            if begun - self._looked_at >= max(LOOK_SECONDS, REST * self._cost):
                await self._look()
                self._looked_at = time.monotonic()
                # A database that did not answer is asked again soon.
                self._cost = self._looked_at - begun if self._seen.up else 0.0

    async def _look(self) -> None:
        run = self._database.run
        try:
            self._seen = _Seen(
                True,
                await run(read.counters()),
                await run(read.exact_stats()),
                await run(read.recent()),
                await run(read.recent_attempts()),
                await run(read.recent_lost_leases()),
                await run(read.recent_times()),
                await run(lakes()),
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
        yield from _lakes(seen.lakes)
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


def _rate(name: str, text: str, paces: Sequence[FinishRate]) -> Metric:
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


def _lakes(found: Sequence[LakeGlance]) -> Iterator[Metric]:
    """Nothing where no lake is registered."""
    if not found:
        return
    rows = GaugeMetricFamily(
        "penstock_lake_lag_rows", "Rows of history not landed yet, up to 10,000.", labels=["lake"]
    )
    lag = GaugeMetricFamily(
        "penstock_lake_lag_seconds",
        "Age of the newest data in a layer, 0 if it holds all that has finished.",
        labels=["lake", "layer"],
    )
    for lake in found:
        rows.add_metric([lake.name], lake.lag_rows)
        lag.add_metric([lake.name, "bronze"], lake.bronze_lag_seconds)
        lag.add_metric([lake.name, "silver"], lake.silver_lag_seconds)
        lag.add_metric([lake.name, "gold"], lake.gold_lag_seconds)
    yield rows
    yield lag
