"""Deletes expired results of tasks. Every worker does this, and each row is deleted once."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

import psycopg

from penstock.commands.write.results import drop_expired_results
from penstock.db.reconnecting import ReconnectingConnections
from penstock.errors import PenstockError

logger = logging.getLogger("penstock.worker")

LOOK_SECONDS: Final = 60.0


class ResultCleaner:
    """Looks once a minute, and without a pause while there are more."""

    def __init__(self, connection: ReconnectingConnections) -> None:
        self._connection = connection

    async def run(self) -> None:
        while True:
            # Random, so that the workers do not all look at once.
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.5, 1.5))
            try:
                while await self._connection.run(drop_expired_results()):
                    pass
            except (PenstockError, psycopg.Error) as error:
                logger.debug("expired results could not be deleted, trying again: %s", error)
