"""One connection that is opened again when it breaks, for processes that run for weeks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from penstock.commands.command import Command
from penstock.db import forks
from penstock.db.execute import CommandConnection, async_check, command_connection, sever
from penstock.errors import DatabaseUnavailableError, translated

T = TypeVar("T")

CONNECT_SECONDS: Final = 10
# The timeout of a connection that accepts statements and never answers. It holds up claims, settles
# and extensions. With 30 seconds, a worker with leases of 30 seconds lost all its leases. Our
# statements take milliseconds.
ANSWER_SECONDS: Final = 10
# The kernel notices a peer that has vanished, too. The defaults of libpq are two hours.
_KEEPALIVE: Final = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class ReconnectingConnection:
    """Runs one command at a time on its own connection, and replaces a broken one.

    A call fails with DatabaseUnavailableError, at the latest after its timeout: a connection that
    accepts statements and does not answer is cut. The caller decides when to try again.
    """

    def __init__(
        self, dsn: str, *, prepare_threshold: int | None = 5, name: str = "penstock"
    ) -> None:
        given = conninfo_to_dict(dsn)
        options = {"connect_timeout": CONNECT_SECONDS, **_KEEPALIVE}
        self._dsn = dsn
        self._options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": prepare_threshold,
            "fallback_application_name": name,
            **{key: value for key, value in options.items() if key not in given},
        }
        self._start()
        forks.register(self)

    def _start(self) -> None:
        self._connection: AsyncConnection[Any] | None = None
        self._commands: CommandConnection | None = None
        self._lock = asyncio.Lock()
        self.waiting = 0

    def _after_fork(self) -> None:
        """In a child process: forget the parent's connection, and open another."""
        forks.abandon(self._connection, self._commands)
        self._start()

    async def run(self, command: Command[T], timeout: float = ANSWER_SECONDS) -> T:
        """Run one command in its own transaction."""
        self.waiting += 1
        try:
            async with self._lock:
                connection = await self._connected()
                return await self._execute(connection, command, timeout)
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """Close the connection. The next command opens a new one."""
        self._hang_up()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def connected(self) -> AsyncConnection[Any]:
        """The connection itself, for other uses than commands. Nothing else may use it then."""
        async with self._lock:
            self._hang_up()
            return await self._connected()

    def _hang_up(self) -> None:
        commands, self._commands = self._commands, None
        if commands is not None:
            commands.close()

    async def _connected(self) -> AsyncConnection[Any]:
        if self._connection is not None:
            with suppress(psycopg.OperationalError):
                await async_check(self._connection)
                return self._connection
            await self.close()
        with translated():
            try:
                async with asyncio.timeout(CONNECT_SECONDS + 5):
                    self._connection = await AsyncConnection.connect(self._dsn, **self._options)
            except TimeoutError:
                raise DatabaseUnavailableError("the database does not answer") from None
        return self._connection

    async def _execute(
        self, connection: AsyncConnection[Any], command: Command[T], timeout: float
    ) -> T:
        # Not asyncio.timeout, because psycopg waits up to ten seconds after a cancellation.
        watchdog = asyncio.get_running_loop().call_later(timeout, sever, connection)
        if self._commands is None:
            self._commands = command_connection(connection)
        try:
            return await self._commands.run(command)
        except DatabaseUnavailableError:
            await self.close()
            raise
        finally:
            watchdog.cancel()


class ReconnectingConnections:
    """A few connections. Each is opened when all earlier ones are busy."""

    def __init__(self, links: Sequence[ReconnectingConnection]) -> None:
        self._links = links

    async def run(self, command: Command[T], timeout: float = 30) -> T:
        """Run one command, on the connection with the shortest queue."""
        return await min(self._links, key=lambda link: link.waiting).run(command, timeout)
