"""Fires the schedules that are due. Every worker does this, and each fire is enqueued once."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

import psycopg

from penstock.commands import write
from penstock.db.reconnecting import ReconnectingConnection, ReconnectingConnections
from penstock.errors import PenstockError

logger = logging.getLogger("penstock.worker")

# A schedule that was created or moved forward in the meantime is noticed after this time.
LOOK_SECONDS: Final = 10.0


class Scheduler:
    """Sleeps until the next schedule is due, by the clock of the database."""

    def __init__(self, connection: ReconnectingConnection | ReconnectingConnections) -> None:
        self._connection = connection

    async def run(self) -> None:
        while True:
            try:
                pause = await self.run_once()
            except (PenstockError, psycopg.Error) as error:
                logger.debug("schedules could not be fired, trying again: %s", error)
                pause = LOOK_SECONDS / 2
            # A little late, and at different times in each worker.
            await asyncio.sleep(pause + random.uniform(0.001, 0.05))

    async def run_once(self) -> float:
        """Fire due schedules. Returns the seconds until the next look."""
        fired = await self._connection.run(write.fire_schedules())
        if fired.count:
            logger.info("schedules fired: %d messages enqueued", fired.count)
        next_in = LOOK_SECONDS if fired.next_in_seconds is None else fired.next_in_seconds
        return max(0.0, min(LOOK_SECONDS, next_in))
