"""Runs commands through the documented interface of psycopg.

The sync module is generated from the async one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader

from penstock.commands.command import Command, Rows
from penstock.errors import translated

ASYNC: Final = True
T = TypeVar("T")


async def execute(connection: AsyncConnection[Any], command: Command[Any], sql: str) -> Rows:
    """The rows of a command. `sql` is its text for this connection."""
    with translated():
        # Not connection.cursor(), because the caller's may return dicts or bind on the client.
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        # Django sets another time zone on its connections. Arrays of 1,000 payloads are written in
        # 0.4 ms instead of 7. Both together cost 5 us for each call.
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        cursor.adapters.register_dumper(list, ListBinaryDumper)
        await cursor.execute(sql.encode(), command.params)
        return await cursor.fetchall()


class AsyncPlainExecutor:
    """Runs commands on borrowed connections, each in its own transaction."""

    def __init__(
        self, borrow: Callable[[None], AbstractAsyncContextManager[AsyncConnection[Any]]]
    ) -> None:
        self._borrow = borrow

    async def run(self, command: Command[T]) -> T:
        async with self._borrow(None) as connection:
            return command.decode(await execute(connection, command, command.alone))

    async def close(self) -> None:
        """It keeps no connections."""


if ASYNC:

    class PlainConnection:
        """Runs commands on one connection."""

        def __init__(self, connection: AsyncConnection[Any]) -> None:
            self._connection = connection

        async def run(self, command: Command[T]) -> T:
            with translated():
                return command.decode(await execute(self._connection, command, command.alone))

        def close(self) -> None:
            """It holds no connection."""

    class PlainNotifications:
        """The notifications of a connection. psycopg looks for them ten times a second."""

        def __init__(
            self,
            connection: AsyncConnection[Any],
            heard: Callable[[str, str], None],
            lost: Callable[[], None],
        ) -> None:
            self._connection = connection
            self._heard = heard
            self._lost = lost

        @asynccontextmanager
        async def watch(self) -> AsyncIterator[None]:
            reading = asyncio.create_task(self._read())
            try:
                yield
            finally:
                reading.cancel()
                # Not `await reading`, because its CancelledError would look like our own.
                await asyncio.wait([reading])

        async def _read(self) -> None:
            try:
                async for note in self._connection.notifies():
                    self._heard(note.channel, note.payload)
            except psycopg.Error:
                self._lost()
