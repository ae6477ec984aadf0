"""Finishes batches whose members have ended, and cancels the members of those being cancelled.

Every worker looks, and each batch finishes once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from time import monotonic
from typing import Final

import psycopg

from penstock.commands.write.batches import continue_cancels, finish_batches
from penstock.db.reconnecting import ReconnectingConnections
from penstock.errors import PenstockError

logger = logging.getLogger("penstock.worker")

# A batch may end without this worker: its members expire, or another worker is killed.
LOOK_SECONDS: Final = 5.0
# The time between two looks while members end. It is longer if a look takes long.
_PAUSE: Final = 0.05
_SHARE: Final = 10


class BatchFinisher:
    """Looks soon after members were settled in this process, and periodically."""

    def __init__(self, connection: ReconnectingConnections) -> None:
        self._connection = connection
        self._wanted = asyncio.Event()

    def look_soon(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS * random.uniform(0.5, 1)):
                    await self._wanted.wait()
            started = monotonic()
            await self._look()
            looked = monotonic()
            await self._continue_cancels()
            # Claims may use the same connection: they have it at least half of the time.
            await asyncio.sleep(max(_PAUSE, _SHARE * (looked - started), monotonic() - looked))

    async def finish(self) -> None:
        """The last look before the worker ends, if members were settled since the previous one."""
        if self._wanted.is_set():
            await self._look()

    async def _look(self) -> None:
        self._wanted.clear()
        try:
            finished = await self._connection.run(finish_batches())
        except (PenstockError, psycopg.Error) as error:
            # The next look is soon enough.
            logger.debug("batches could not be finished, trying again: %s", error)
        else:
            if finished:
                logger.info("batches finished: %d", finished)

    async def _continue_cancels(self) -> None:
        """Cancel one piece, and look again soon if there was one: other batches wait meanwhile."""
        try:
            cancelled = await self._connection.run(continue_cancels())
        except (PenstockError, psycopg.Error) as error:
            logger.debug("members of batches could not be cancelled, trying again: %s", error)
        else:
            if cancelled:
                logger.info("members of batches cancelled: %d", cancelled)
                self.look_soon()
