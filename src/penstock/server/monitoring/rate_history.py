"""The recent history of the queues, in memory, for the charts of the pages.

Every 15 seconds two parts of the snapshot are read, and a few numbers of each queue are kept. They
are lost with the process. The lake has the long history.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.model.queue import QueueStats
from penstock.server.monitoring.snapshots import Snapshot, SnapshotCache
from penstock.server.transport.exchange import log

BEAT_SECONDS: Final = 15.0
KEPT: Final = 240  # an hour of them
# Beyond this many queues, the smaller ones are not kept one by one.
MOST_QUEUES: Final = 1000


@dataclass(frozen=True, slots=True)
class Beat:
    """One moment: of all queues together (the empty name), and of each."""

    at: datetime
    queues: dict[str, tuple[int, int, int, float]]

    def of(self, name: str) -> tuple[int, int, int, float]:
        """(ready, leased, dead, finished a minute)"""
        return self.queues.get(name, (0, 0, 0, 0.0))


class RateHistory:
    """Collects them, from `start` to `stop`."""

    def __init__(self, board: SnapshotCache, seconds: float = BEAT_SECONDS) -> None:
        self._board = board
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self.beats: deque[Beat] = deque(maxlen=KEPT)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(self._seconds)

    async def beat(self) -> None:
        """Add the current numbers. An unavailable database leaves a gap."""
        try:
            self.beats.append(beat_of(await self._board.look("stats", "finished")))
        except Exception as error:
            log.debug("no beat: %s", error)


def beat_of(snapshot: Snapshot) -> Beat:
    """The numbers of a snapshot that are kept."""
    finished: dict[str, float] = {}
    for pace in snapshot.finished:
        rate = pace.count * 60 / max(pace.seconds, 1)
        finished[pace.queue] = finished.get(pace.queue, 0) + rate
    largest = sorted(snapshot.stats, key=_size, reverse=True)[:MOST_QUEUES]
    queues = {
        s.queue: (s.ready, s.leased, s.dead, round(finished.get(s.queue, 0), 1)) for s in largest
    }
    queues[""] = (
        sum(s.ready for s in snapshot.stats),
        sum(s.leased for s in snapshot.stats),
        sum(s.dead for s in snapshot.stats),
        round(sum(finished.values()), 1),
    )
    return Beat(snapshot.at, queues)


def _size(stats: QueueStats) -> int:
    return stats.ready + stats.leased + stats.dead
