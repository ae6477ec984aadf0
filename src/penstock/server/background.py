"""The periodic work of a server: expiry, due schedules, cancelled batches, charts, upkeep.

Several servers may do it at once. Each step locks the rows that it works on, or skips locked ones.
Claims do the same work, so nothing depends on this timer. It only makes things happen sooner.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from time import monotonic, time
from typing import Final

import psycopg

from penstock.commands.write import fire_schedules, maintain
from penstock.commands.write.batches import continue_cancels
from penstock.commands.write.idempotency import tidy_server
from penstock.commands.write.monitoring import record_charts
from penstock.errors import DatabaseUnavailableError, PenstockError
from penstock.server.database import Database

log: Final = logging.getLogger("penstock.server")
EXPIRY_SECONDS: Final = 60.0
SCHEDULE_SECONDS: Final = 30.0
TIDY_SECONDS: Final = 3600.0
MAX_CHART_CALLS: Final = 100


class Background:
    """The timer. `run_once` does the work that is due."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._expire_at = monotonic() + EXPIRY_SECONDS * random.random()
        self._tidy_at = monotonic() + TIDY_SECONDS * random.random()

    def start(self) -> None:
        self._task = asyncio.create_task(self._work(), name="penstock upkeep")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def run_soon(self) -> None:
        """Do the work now, because there is some."""
        self._wanted.set()

    async def run_once(self) -> float:
        """Do the work that is due. Returns the seconds until the next call."""
        fired = await self._database.run(fire_schedules())
        has_cancelled = await self._continue_cancels()
        if monotonic() >= self._expire_at:
            self._expire_at = monotonic() + EXPIRY_SECONDS
            await expire(self._database)
        if monotonic() >= self._tidy_at:
            self._tidy_at = monotonic() + TIDY_SECONDS
            await self._database.run(tidy_server())
        await record_all_charts(self._database)
        if has_cancelled:
            return 0.0
        pause = min(SCHEDULE_SECONDS, 60.5 - time() % 60)
        if fired.next_in_seconds is None:
            return pause
        return min(max(fired.next_in_seconds, 0.1), pause)

    async def _continue_cancels(self) -> bool:
        """Cancel one piece of the members of cancelled batches. True if there may be more."""
        try:
            return await self._database.run(continue_cancels()) > 0
        except (PenstockError, psycopg.Error) as error:
            log.warning("members of batches could not be cancelled, trying again: %s", error)
            return False

    async def _work(self) -> None:
        pause = 1.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause)
            self._wanted.clear()
            try:
                pause = await self.run_once()
            except DatabaseUnavailableError:
                pause = 5.0
            except (PenstockError, psycopg.Error) as error:
                log.warning("upkeep failed: %s", error)
                pause = SCHEDULE_SECONDS


async def record_all_charts(database: Database) -> None:
    """Record the charts soon after each minute ends. At any other time, the call returns at once.

    A call counts 50,000 rows of history. On a busy system, a minute has more of them.
    """
    for _ in range(MAX_CHART_CALLS):
        if not await database.run(record_charts()):
            return


async def expire(database: Database) -> int:
    """End messages whose time to live is over, in bounded portions. Returns their number."""
    total = 0
    while True:
        done = await database.run(maintain())
        expired = int(done["expired"])
        total += expired
        if not expired:
            return total
