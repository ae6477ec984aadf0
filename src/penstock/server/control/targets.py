"""The databases of services: their addresses, and commands that run on them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.commands.command import Command
from penstock.db.async_connections import AsyncConnections
from penstock.db.migrations import Migrator
from penstock.server.database import Database

T = TypeVar("T")
DEFAULT: Final = "defaultdb"
"""An alias of the database in a service's address."""
CONNECT_SECONDS: Final = 5
_KEPT: Final = 32


def own_database(dsn: str) -> str:
    """The database in an address. As in libpq, the default is the name of the user."""
    found = conninfo_to_dict(dsn)
    return str(found.get("dbname") or found.get("user") or "postgres")


def address(dsn: str, database_name: str) -> str:
    """The address of a database of a service."""
    if database_name in (DEFAULT, own_database(dsn)):
        return dsn
    return make_conninfo(dsn, dbname=database_name)


class Targets:
    """Connections to services, opened on demand. The least recently used ones are closed."""

    def __init__(self, home: Database) -> None:
        self._home = home
        self._pools: OrderedDict[str, AsyncConnections] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def address(self, dsn: str | None, database_name: str) -> str:
        """None means the server's own database."""
        return address(dsn or self._home.dsn, database_name)

    async def run(self, target: str, command: Command[T]) -> T:
        """Run a command on the database at an address."""
        if target == self._home.dsn:
            return await self._home.run(command)
        return await self._pool(target).run(command)

    async def prepare(self, target: str) -> None:
        """Install or upgrade the schema in the database at an address."""
        if target != self._home.dsn:
            await asyncio.to_thread(_migrate, target)

    async def close(self) -> None:
        while self._pools:
            await self._pools.popitem()[1].close()

    def _pool(self, target: str) -> AsyncConnections:
        found = self._pools.pop(target, None)
        if found is None:
            dsn = make_conninfo(target, **_patience(target))
            found = AsyncConnections(
                dsn, None, min_size=1, max_size=4, timeout=10, prepare_threshold=5
            )
        self._pools[target] = found
        if len(self._pools) > _KEPT:
            _, oldest = self._pools.popitem(last=False)
            closing = asyncio.create_task(oldest.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        return found


def _patience(target: str) -> dict[str, int]:
    known = "connect_timeout" in conninfo_to_dict(target)
    return {} if known else {"connect_timeout": CONNECT_SECONDS}


def _migrate(target: str) -> None:
    with psycopg.connect(target, autocommit=True, **_patience(target)) as connection:  # type: ignore[arg-type]
        Migrator(connection).up()
