"""One snapshot of the queues, shared by all pages of a server.

It is read at most every two seconds for any number of visitors, and not at all without visitors.
Each part has its own age limit. All of them together are about three queries a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.read import analytics
from penstock.commands.read.analytics import LakeGlance
from penstock.model.monitoring import (
    DeadError,
    FindingNote,
    FinishRate,
    Heartbeat,
    HorizonHolder,
    RecentOutcomes,
    RingSegments,
)
from penstock.model.queue import Queue, QueueStats, WorkerLeases
from penstock.model.schedule import Schedule
from penstock.server.database import Database

LOOK_SECONDS: Final = 2.0
AT_ONCE: Final = 3
HOUR_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Part:
    """One query, and the age limit of its result: in seconds, and as a multiple of its duration."""

    ask: Callable[[], Command[Any]]
    seconds: float
    times_its_cost: float = 0


PARTS: Final[dict[str, Part]] = {
    "stats": Part(read.all_stats, LOOK_SECONDS),
    # For findings, because an estimate must not raise an alarm. Read only if `stats` are estimates.
    "exact": Part(read.exact_stats, 10, times_its_cost=20),
    "queues": Part(read.queues, 5),
    "finished": Part(read.recent, 5),
    "failed": Part(read.recent_attempts, 5),
    # For findings, because the samples above may cover seconds only, each a different time.
    "outcomes": Part(read.recent_outcomes, 5),
    "heartbeats": Part(read.heartbeats, 5),
    "leases": Part(read.workers, 5),
    "errors": Part(read.dead_errors, 10),
    "expired": Part(read.expired_leases, 10),
    "ring": Part(read.ring, 10),
    "counters": Part(read.counters, 10),
    "notes": Part(read.finding_notes, 5),
    "horizon": Part(read.horizon, 10),
    "schedules": Part(read.schedules, 10),
    "lakes": Part(analytics.lakes, 10),
    # Recorded once a minute.
    "depths": Part(read.recent_depths, 20, times_its_cost=100),
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot and its time."""

    number: int
    at: datetime
    stats: list[QueueStats] = field(default_factory=list)
    exact: list[QueueStats] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    finished: list[FinishRate] = field(default_factory=list)
    failed: list[FinishRate] = field(default_factory=list)
    outcomes: RecentOutcomes = field(default_factory=RecentOutcomes)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    leases: list[WorkerLeases] = field(default_factory=list)
    errors: list[DeadError] = field(default_factory=list)
    expired: dict[str, int] = field(default_factory=dict)
    ring: RingSegments | None = None
    counters: tuple[int, int] = (0, 0)
    # Messages that only a rescan found in the last hour, as far as this server has looked.
    rescued: int = 0
    notes: list[FindingNote] = field(default_factory=list)
    horizon: list[HorizonHolder] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    lakes: list[LakeGlance] = field(default_factory=list)
    depths: dict[str, dict[datetime, int]] = field(default_factory=dict)


class SnapshotCache:
    """Reads a new snapshot if the last one is too old."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._answers: dict[str, Any] = {}
        self._read_at: dict[str, float] = {}
        self._cost: dict[str, float] = {}
        self._changes = 0
        self._looking = asyncio.Lock()
        # Several at once, which halves the time of a whole snapshot.
        self._asking = asyncio.Semaphore(AT_ONCE)
        self._snapshot: Snapshot | None = None
        self._number = 0
        self._rescues: deque[tuple[float, int]] = deque()

    def forget(self) -> None:
        """Read everything again at the next request, because something has changed."""
        self._read_at.clear()
        self._changes += 1

    async def look(self, *parts: str) -> Snapshot:
        """The snapshot, with every part within its age limit. Concurrent callers share it.

        With `parts`, only these are refreshed, because a page shows only some of them.
        """
        wanted = parts or tuple(PARTS)
        if self._snapshot is None or self._stale(wanted):
            async with self._looking:
                # All wanted parts may be fresh without a snapshot, if another part has failed.
                stale = self._stale(wanted)
                if stale or self._snapshot is None:
                    await self._read(stale)
        assert self._snapshot is not None
        return self._snapshot

    def _stale(self, wanted: Sequence[str]) -> list[str]:
        now = time.monotonic()
        return [
            name
            for name in wanted
            # A little early is accepted, or a request every 2 s would get every other update.
            if now - self._read_at.get(name, -1e9) >= self._seconds(name) - 0.1
        ]

    def _seconds(self, name: str) -> float:
        part = PARTS[name]
        return max(part.seconds, part.times_its_cost * self._cost.get(name, 0))

    async def _read(self, names: Sequence[str]) -> None:
        await asyncio.gather(*(self._ask(name) for name in names if name != "exact"))
        if not any(stats.estimated for stats in self._answers.get("stats", ())):
            self._answers["exact"] = self._answers.get("stats", [])
        elif "exact" in names:
            await self._ask("exact")
        self._number += 1
        self._snapshot = Snapshot(
            self._number, datetime.now(UTC), rescued=self._newly_rescued(), **self._answers
        )

    def _newly_rescued(self) -> int:
        """How much the counter has grown since its last value that is at least an hour old."""
        now, total = time.monotonic(), self._answers.get("counters", (0, 0))[1]
        if "counters" in self._answers:
            self._rescues.append((now, total))
        while len(self._rescues) > 1 and self._rescues[1][0] <= now - HOUR_SECONDS:
            self._rescues.popleft()
        return total - self._rescues[0][1] if self._rescues else 0

    async def _ask(self, name: str) -> None:
        async with self._asking:
            before, begun = self._changes, time.monotonic()
            self._answers[name] = await self._database.run(PARTS[name].ask())
            self._cost[name] = time.monotonic() - begun
            # A query that began before a change may not show it, so the next request reads again.
            if before == self._changes:
                self._read_at[name] = time.monotonic()
