"""The few places where async and sync differ by more than a word: each written twice, by hand.

The clients are written once, in async; tools/generate_client.py puts the second name of each pair
for the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

import psycopg

from penstock.arguments import refuse
from penstock.settings import Settings

T = TypeVar("T")
AsyncStream: TypeAlias = AsyncGenerator[T, None]
Stream: TypeAlias = Generator[T, None, None]


async def locate_async(dsn: str | None) -> str:
    """The DSN in force. Starting the embedded server takes a second: not on the event loop."""
    return await asyncio.to_thread(locate, dsn)


def locate(dsn: str | None) -> str:
    """The DSN in force; if none is named anywhere, that of the embedded server, started.

    That one is ours alone, so the schema is brought into it without being asked.
    """
    settings = Settings.from_environment(dsn=dsn)
    if settings.dsn is not None:
        return settings.dsn
    # Only here: most users have a database, and migrate it themselves.
    from penstock.embedded import connect_dsn
    from penstock.migrations import Migrator

    embedded = connect_dsn(settings)
    with psycopg.connect(embedded, autocommit=True) as connection:
        Migrator(connection).up()
    return embedded


async def each_async(messages: Iterable[Any] | AsyncIterable[Any]) -> AsyncStream[Any]:
    """The messages of any iterable, async or not."""
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
        return
    for message in _checked(messages):
        yield message


def each(messages: Iterable[Any]) -> Stream[Any]:
    """The messages of an iterable."""
    yield from _checked(messages)


def _checked(messages: Iterable[Any]) -> Iterable[Any]:
    # A str, bytes or dict is one payload; taken apart, it would be many that nobody meant.
    if isinstance(messages, str | bytes | bytearray | memoryview | dict) or not isinstance(
        messages, Iterable
    ):
        raise refuse("messages", messages, "an iterable of payloads or NewMessages")
    return messages


async def driver_connection_async(connection: Any) -> Any:
    """The psycopg connection behind SQLAlchemy's AsyncSession or AsyncConnection; others as is."""
    if not is_sqlalchemy(connection):
        return connection
    if hasattr(connection, "get_bind"):  # a session, also a scoped one
        connection = await _awaited(connection.connection())
    if not hasattr(connection, "get_raw_connection"):
        return connection  # the synchronous kind
    # As SQLAlchemy does at the first statement; else its commit would do nothing.
    if not connection.in_transaction():
        await connection.begin()
    return (await connection.get_raw_connection()).driver_connection


def driver_connection(connection: Any) -> Any:
    """The psycopg connection behind SQLAlchemy's Session or Connection; others as they are."""
    if not is_sqlalchemy(connection) or hasattr(connection, "run_sync"):
        return connection  # not SQLAlchemy's, or its asynchronous kind
    if hasattr(connection, "get_bind"):  # a session, also a scoped one
        connection = connection.connection()
    if not hasattr(connection, "in_transaction"):
        return connection
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection


def is_sqlalchemy(connection: Any) -> bool:
    kinds = type(connection).__mro__
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in kinds)


async def _awaited(value: Any) -> Any:
    return await value if isawaitable(value) else value


async def use_iso_dates_async(connection: psycopg.AsyncConnection[Any]) -> None:
    if _needs_iso_dates(connection):
        await connection.execute(_ISO_DATES)


def use_iso_dates(connection: psycopg.Connection[Any]) -> None:
    """Have times written as the driver reads them, whatever the database's default is."""
    if _needs_iso_dates(connection):
        connection.execute(_ISO_DATES)


_ISO_DATES = "set datestyle to ISO"


def _needs_iso_dates(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> bool:
    return not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO")


async def check_async(connection: psycopg.AsyncConnection[Any]) -> None:
    _check(connection)


def check(connection: psycopg.Connection[Any]) -> None:
    _check(connection)


def _check(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Raises if the server has closed the line, without asking it: one look at the socket.

    A restart of the database leaves dead connections in the pool; this finds them before they
    fail a call. Twice, because the first look may find the server's words of farewell.
    """
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()
