"""The databases of services: connections to them, and commands that run on them in time.

Each database has a pool as the server's own: calls that wait for a hung database fail after some
seconds, and others are refused until it responds again. See `server.database`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg

from penstock.commands.command import Command
from penstock.db.execute import sever
from penstock.db.migrations import Migrator
from penstock.errors import DatabaseUnavailableError, PenstockError, translated
from penstock.server.control.addresses import DEFAULT, Addresses, ServiceAddress
from penstock.server.database import Database

T = TypeVar("T")
# How long one call may take: to connect, and in all. Installing the schema takes longer.
OPEN_SECONDS: Final = 4.0
CALL_SECONDS: Final = 30.0
MIGRATE_SECONDS: Final = 60.0
POOL: Final = 4
_KEPT: Final = 32


class Targets:
    """Connections to services, opened on demand. The least recently used ones are closed."""

    def __init__(self, home: Database, addresses: Addresses) -> None:
        self.home = home
        self.addresses = addresses
        self._pools: OrderedDict[str, Database] = OrderedDict()
        self._opening: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def conninfo(self, address: ServiceAddress | None, database_name: str) -> str:
        """The connection string. No address means the server's own database."""
        if address is None:
            own = ServiceAddress(self.home.dsn)
            if database_name in (DEFAULT, own.database_name):
                return self.home.dsn
            return psycopg.conninfo.make_conninfo(self.home.dsn, dbname=database_name)
        return self.addresses.conninfo(address, database_name)

    async def run(self, target: str, command: Command[T], seconds: float = CALL_SECONDS) -> T:
        """Run a command on a database. DatabaseUnavailableError if it takes too long."""
        if target == self.home.dsn:
            return await self.home.run(command)
        database = await self._opened(target)
        running = asyncio.ensure_future(database.run(command))
        done, _ = await asyncio.wait({running}, timeout=seconds)
        if not done:
            # Its connection cannot be used again. Other calls on it are repeated.
            self.forget(target)
            with suppress(PenstockError, psycopg.Error):
                await running
            raise DatabaseUnavailableError(f"no response within {seconds:g} s")
        return running.result()

    async def prepare(self, target: str) -> None:
        """Install or upgrade the schema in a database."""
        if target == self.home.dsn:
            return
        opened: list[psycopg.Connection[Any]] = []
        working = asyncio.ensure_future(asyncio.to_thread(_migrate, target, opened))
        done, _ = await asyncio.wait({working}, timeout=MIGRATE_SECONDS)
        if not done:
            for connection in opened:
                sever(connection)
        try:
            await working
        except psycopg.OperationalError as error:
            if done:
                raise
            text = f"the schema could not be installed within {MIGRATE_SECONDS:g} s"
            raise DatabaseUnavailableError(text) from error

    def forget(self, target: str) -> None:
        """Close the connections to a database. Calls that wait on them fail."""
        found = self._pools.pop(target, None)
        if found is not None:
            found.sever()
            self._close(found)

    async def close(self) -> None:
        while self._pools:
            self._close(self._pools.popitem()[1])
        if self._closing:
            await asyncio.wait(self._closing, timeout=OPEN_SECONDS)

    def _close(self, database: Database) -> None:
        closing = asyncio.create_task(database.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _opened(self, target: str) -> Database:
        opening = self._opening.setdefault(target, asyncio.Lock())
        async with opening:
            found = self._pools.pop(target, None)
            if found is None:
                found = await self._open(target)
            self._pools[target] = found
        if not opening.locked():
            self._opening.pop(target, None)
        if len(self._pools) > _KEPT:
            self._close(self._pools.popitem(last=False)[1])
        return found

    async def _open(self, target: str) -> Database:
        made = Database(target, POOL)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await made.open()
        except TimeoutError:
            self._close(made)
            text = f"no connection within {OPEN_SECONDS:g} s"
            raise DatabaseUnavailableError(text) from None
        except BaseException:
            self._close(made)
            raise
        return made


def _migrate(target: str, opened: list[psycopg.Connection[Any]]) -> None:
    with translated():
        connection = psycopg.connect(target, autocommit=True)
    opened.append(connection)
    with connection:
        Migrator(connection).up()
