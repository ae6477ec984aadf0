"""The server's access to its database: a pool, and a quick refusal while it is unavailable.

A hung database accepts connections and does not respond. If calls wait without any response, the
server sends a trivial query on another connection. If that gets no response either, the waiting
calls fail, and others are refused until the database responds again. A slow statement continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.commands import read
from penstock.commands.command import Command
from penstock.db.async_connections import AnyConnection, AsyncConnections, Pool
from penstock.db.execute import sever
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import ConnectionLimitError, DatabaseUnavailableError, PenstockError

T = TypeVar("T")
log: Final = logging.getLogger("penstock.server")
# The interval at which waiting calls are checked.
WATCH_SECONDS: Final = 0.5
# How long the database may be silent on all connections before it counts as unavailable. With the
# interval above, a waiting page is answered after 2.5 seconds.
SILENCE_SECONDS: Final = 2.0
# The same for a health check, which must respond within 2 seconds.
READY_SECONDS: Final = 1.5
# How long a call waits for a connection of the pool, and for any connection, also of a new pool.
POOL_SECONDS: Final = 3.0
ACQUIRE_SECONDS: Final = 4.0
SILENT: Final = "the database does not answer"
_AGAIN: Final = "Try again in a second."


class Database:
    """Runs commands. `transaction` runs several in one transaction."""

    def __init__(self, dsn: str, pool: int) -> None:
        self.dsn = dsn
        self._connections = _Connections(dsn, pool)
        self._link = ReconnectingConnection(
            _impatient(dsn), prepare_threshold=None, name="penstock health"
        )
        self._asking: asyncio.Task[int] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._away: DatabaseUnavailableError | None = None
        self._probed_at = float("-inf")
        self._running = 0
        self._answers = 0

    @property
    def is_away(self) -> bool:
        """Whether the database could not be reached and has not responded since."""
        return self._away is not None

    async def open(self) -> None:
        """Connect and check the schema."""
        await self._connections.open()
        self._watching = asyncio.create_task(self._watch(), name="penstock database watch")

    async def close(self) -> None:
        for task in (self._watching, self._asking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, PenstockError):
                    await task
        await self._link.close()
        await self._connections.close()

    def sever(self) -> None:
        """Cut the connections that are in use: the calls on them fail."""
        for connection in self._connections.lent:
            sever(connection)

    async def probe(self, seconds: float = READY_SECONDS, *, max_age: float = 0) -> None:
        """DatabaseUnavailableError unless the database answers within this time.

        A response that is no older than `max_age` is enough.
        """
        if monotonic() - self._probed_at < max_age:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._link.run(read.schema_version()))
            # All its waiters may have been cancelled.
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        asking = self._asking  # another caller may check again afterwards
        done, _ = await asyncio.wait({asking}, timeout=seconds)
        if not done:
            raise DatabaseUnavailableError(SILENT, hint=_AGAIN)
        asking.result()
        self._probed_at = monotonic()

    async def run(self, command: Command[T], connection: AnyConnection | None = None) -> T:
        """Run one command, on a connection of `transaction` or in a separate transaction."""
        if connection is not None:
            answer = await self._connections.run(command, connection)
            self._answers += 1
            return answer
        self._refuse_while_away()
        self._running += 1
        try:
            answer = await self._connections.run(command)
        except DatabaseUnavailableError as error:
            raise await self._noted(error) from error
        finally:
            self._running -= 1
        self._answers += 1
        return answer

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AnyConnection]:
        """A connection with a transaction, which is committed as a whole or not at all."""
        self._refuse_while_away()
        self._running += 1
        try:
            async with self._connections.transaction(None) as connection:
                yield connection
        except DatabaseUnavailableError as error:
            raise await self._noted(error) from error
        finally:
            self._running -= 1
        self._answers += 1

    def _refuse_while_away(self) -> None:
        if self._away is not None:
            raise DatabaseUnavailableError(self._away.message, hint=_AGAIN)

    async def _noted(self, error: DatabaseUnavailableError) -> DatabaseUnavailableError:
        """The error of a failed call. It may have been cut off because the database was silent.

        If the database responds, only that connection was cut off, and other calls continue.
        """
        if isinstance(error, ConnectionLimitError):
            return error  # the database responds
        if self._away is None:
            try:
                await self.probe()
            except DatabaseUnavailableError:
                self._away = self._away or error
            return error
        return DatabaseUnavailableError(self._away.message, hint=_AGAIN)

    async def _watch(self) -> None:
        while True:
            before = self._answers
            await asyncio.sleep(WATCH_SECONDS)
            waits_in_vain = self._running and self._answers == before
            if not waits_in_vain and self._away is None:
                continue
            try:
                await self._look_after()
            except (PenstockError, psycopg.Error, OSError) as error:
                log.debug("the database cannot be used: %s", error)

    async def _look_after(self) -> None:
        """Check whether the database responds. Admit calls, or fail the waiting ones."""
        try:
            await self.probe(SILENCE_SECONDS)
        except ConnectionLimitError:
            pass  # the database responds
        except DatabaseUnavailableError as error:
            self._away = error
            self._connections.fail_all()
            return
        if self._away is not None:
            await self._connections.renew()
            self._away = None


class _Connections(AsyncConnections):
    """A pool with an upper limit on the wait for a connection."""

    def __init__(self, dsn: str, size: int) -> None:
        self._acquiring: set[asyncio.Timeout] = set()
        super().__init__(
            dsn, None, min_size=1, max_size=size, timeout=POOL_SECONDS, prepare_threshold=1
        )

    async def _take(self) -> tuple[Pool, AnyConnection]:
        try:
            async with asyncio.timeout(ACQUIRE_SECONDS) as limit:
                self._acquiring.add(limit)
                try:
                    return await super()._take()
                finally:
                    self._acquiring.discard(limit)
        except TimeoutError:
            raise DatabaseUnavailableError(SILENT, hint=_AGAIN) from None

    def fail_all(self) -> None:
        """Cut the connections that are in use, and end the wait for one."""
        for connection in self.lent:
            sever(connection)
        for limit in self._acquiring:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    async def renew(self) -> None:
        """A new pool, because the old one retries at increasing intervals."""
        if self._pool is not None:
            async with asyncio.timeout(ACQUIRE_SECONDS):
                await self._renewed(self._pool)


def _impatient(dsn: str) -> str:
    """The DSN with libpq's shortest connection timeout, unless it states another."""
    return (
        dsn if "connect_timeout" in conninfo_to_dict(dsn) else make_conninfo(dsn, connect_timeout=2)
    )
