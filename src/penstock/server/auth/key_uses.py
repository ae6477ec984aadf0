"""When keys were last used: collected in memory, and written a few times a minute.

A write for each request would update one row of a busy key hundreds of times a second. So a key is
written once in five minutes, for any number of requests and servers.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import psycopg

from penstock.commands.write.keys import note_key_use
from penstock.errors import PenstockError
from penstock.server.database import Database

log: Final = logging.getLogger("penstock.server")
FLUSH_SECONDS: Final = 30.0


class KeyUses:
    """The keys that were used since the last write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self.add: Final = self._used.add

    def start(self) -> None:
        self._task = asyncio.create_task(self._work(), name="penstock key uses")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.flush()

    async def flush(self) -> None:
        """Write them. Keys that could not be written are kept for the next time."""
        ids = sorted(self._used)
        if not ids:
            return
        try:
            await self._database.run(note_key_use(ids))
        except (PenstockError, psycopg.Error) as error:
            # A standby, or an unavailable database. Requests are still served.
            log.debug("the last uses of keys were not written: %s", error)
        else:
            self._used.difference_update(ids)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()
