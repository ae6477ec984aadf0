"""Metrics of the database: queues, workers, schedules, lakes, the ring and the horizon.

A scrape reads them, at most every five seconds, in ten queries for any number of queues. Messages
are counted exactly, since alerts depend on them. That reads all of them, so the database rests for
20 times as long as the last reading took. All servers of a database report the same values.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from penstock.commands import read
from penstock.commands.read.analytics import LakeGlance, lakes
from penstock.commands.write.monitoring import count_finished
from penstock.model.monitoring import (
    Heartbeat,
    HorizonHolder,
    Latencies,
    QueueCounter,
    RingSegments,
)
from penstock.model.queue import Queue, QueueStats
from penstock.model.schedule import Schedule
from penstock.server.database import Database
from penstock.server.monitoring import metric_families as families
from penstock.server.transport.exchange import log

LOOK_SECONDS: Final = 5.0
REST: Final = 20  # times as long as the last reading took


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one reading. `up` is False if the database did not respond."""

    up: bool = False
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ids: int = 0
    rescans: int = 0
    ring: RingSegments = field(default_factory=lambda: RingSegments(0, 0, 0, 0, False))
    stats: list[QueueStats] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    counters: list[QueueCounter] = field(default_factory=list)
    times: list[Latencies] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    horizon: list[HorizonHolder] = field(default_factory=list)
    lakes: list[LakeGlance] = field(default_factory=list)

    def only(self, shown: Callable[[str], bool]) -> Reading:
        """The same without hidden queues."""
        return replace(
            self,
            stats=[each for each in self.stats if shown(each.queue)],
            queues=[each for each in self.queues if shown(each.name)],
            counters=[each for each in self.counters if shown(each.queue)],
            times=[each for each in self.times if shown(each.queue)],
            schedules=[each for each in self.schedules if shown(each.queue)],
        )


class QueueMetrics:
    """`look` reads the database. `of` returns a collector of the result."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at = -1e9
        self._cost = 0.0
        self._looking = asyncio.Lock()
        self._reading = Reading()

    async def look(self) -> None:
        # A second scrape waits for the first reading: without one, the database would seem down.
        async with self._looking:
            begun = time.monotonic()
            if begun - self._looked_at >= max(LOOK_SECONDS, REST * self._cost):
                await self._look()
                self._looked_at = time.monotonic()
                # A database that did not answer is asked again soon.
                self._cost = self._looked_at - begun if self._reading.up else 0.0

    async def _look(self) -> None:
        try:
            self._reading = await read_all(self._database)
        except Exception as error:
            log.debug("no metrics of the database: %s", error)
            self._reading = Reading()

    def of(self, shown: Callable[[str], bool]) -> Collector:
        """The metrics of the visible queues, by name."""
        return _Shown(self._reading.only(shown))


async def read_all(database: Database) -> Reading:
    """Read everything, one query after the other: a scrape takes one connection."""
    run = database.run
    ids, rescans = await run(read.counters())
    return Reading(
        up=True,
        ids=ids,
        rescans=rescans,
        ring=await run(read.ring()),
        stats=await run(read.exact_stats()),
        queues=await run(read.queues()),
        counters=await run(count_finished()),
        times=await run(read.recent_times()),
        heartbeats=await run(read.heartbeats()),
        schedules=await run(read.schedules()),
        horizon=await run(read.horizon()),
        lakes=await run(lakes()),
    )


class _Shown(Collector):
    """The part of a reading that one caller may see."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        found = self._reading
        yield families.database_up(found.up)
        if not found.up:
            return
        now = datetime.now(UTC)
        yield families.reading_age(now - found.at)
        yield from families.engine(found.ids, found.rescans, found.ring)
        yield from families.depths(found.stats)
        yield from families.settings(found.queues)
        yield from families.finished(found.queues, found.counters)
        yield from families.times(found.times)
        yield from families.workers(found.heartbeats, [queue.name for queue in found.queues])
        yield from families.schedules(found.schedules, now)
        yield from families.horizon(found.horizon)
        yield from families.lakes(found.lakes, now)
