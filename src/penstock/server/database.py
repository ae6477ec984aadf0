"""The server's way to its database: a pool, and a quick no while the database is away."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from penstock.command import Command
from penstock.connections_async import AnyConnection, AsyncConnections
from penstock.errors import DatabaseUnavailableError

T = TypeVar("T")
# While the database is away, one call in this time tries it; the others are refused at once,
# instead of standing in line for the time-out of the pool.
RETRY_SECONDS: Final = 1.0


class Database:
    """Runs commands; `transaction` holds several together."""

    def __init__(self, dsn: str, pool: int) -> None:
        self.dsn = dsn
        self._connections = AsyncConnections(
            dsn, None, min_size=1, max_size=pool, timeout=5, prepare_threshold=1
        )
        self._away: DatabaseUnavailableError | None = None
        self._retry_at = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the last call could not reach the database."""
        return self._away is not None

    async def open(self) -> None:
        """Connect and check the schema."""
        await self._connections.open()

    async def close(self) -> None:
        await self._connections.close()

    async def run(self, command: Command[T], connection: AnyConnection | None = None) -> T:
        """Run one command, on a connection of `transaction` or as a transaction of its own."""
        if connection is not None:
            return await self._connections.run(command, connection)
        self._refuse_while_away()
        try:
            answer = await self._connections.run(command)
        except DatabaseUnavailableError as error:
            self._note(error)
            raise
        self._away = None
        return answer

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AnyConnection]:
        """A connection; what runs on it is committed together, or not at all."""
        self._refuse_while_away()
        try:
            async with self._connections.transaction(None) as connection:
                yield connection
        except DatabaseUnavailableError as error:
            self._note(error)
            raise
        self._away = None

    def _refuse_while_away(self) -> None:
        if self._away is None:
            return
        if time.monotonic() < self._retry_at:
            raise DatabaseUnavailableError(self._away.message, hint="Try again in a second.")
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _note(self, error: DatabaseUnavailableError) -> None:
        self._away = error
        self._retry_at = time.monotonic() + RETRY_SECONDS
