"""Runs commands on connections: the interface, and the choice of its implementation.

`fast_execute` uses internals of psycopg and takes 30 us for what takes a cursor 75. It is the
default. `PENSTOCK_FAST_PATHS=off` chooses the plain implementation, which uses only the documented
interface of psycopg. Nothing else may import either of them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import cache
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from penstock.commands.command import Command
from penstock.db import async_plain_execute, fast_execute, sync_plain_execute
from penstock.settings import fast_paths

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any] | AsyncConnection[Any]
Borrow: TypeAlias = Callable[[None], AbstractContextManager[psycopg.Connection[Any]]]
AsyncBorrow: TypeAlias = Callable[[None], AbstractAsyncContextManager[AsyncConnection[Any]]]


# Once for each process, because `check` runs for every call of the sync client.
_is_fast: Final = cache(fast_paths)


class Executor(Protocol):
    """Runs commands on borrowed connections, each in its own transaction."""

    def run(self, command: Command[T]) -> T: ...

    def close(self) -> None:
        """Give back every connection that is kept."""


class AsyncExecutor(Protocol):
    """The same for asyncio."""

    async def run(self, command: Command[T]) -> T: ...

    async def close(self) -> None: ...


class CommandConnection(Protocol):
    """Runs commands on one connection. Nothing else may use the connection until `close`."""

    async def run(self, command: Command[T]) -> T: ...

    def close(self) -> None:
        """Leave the connection to others. It stays open."""


class Notifications(Protocol):
    """The notifications of a connection."""

    def watch(self) -> AbstractAsyncContextManager[None]:
        """Report notifications while the block runs. No statement may use the connection then."""


def executor(borrow: Borrow, most: int) -> Executor:
    """`most` is the largest number of connections that it may keep between commands."""
    if _is_fast():
        return fast_execute.FastExecutor(borrow)
    return sync_plain_execute.PlainExecutor(borrow)


def async_executor(borrow: AsyncBorrow, most: int) -> AsyncExecutor:
    if _is_fast():
        return fast_execute.AsyncFastExecutor(borrow, most)
    return async_plain_execute.AsyncPlainExecutor(borrow)


def command_connection(connection: AsyncConnection[Any]) -> CommandConnection:
    if _is_fast():
        return fast_execute.FastConnection(connection)
    return async_plain_execute.PlainConnection(connection)


def notifications(
    connection: AsyncConnection[Any], heard: Callable[[str, str], None], lost: Callable[[], None]
) -> Notifications:
    """`heard` is called with channel and payload, `lost` when the connection breaks."""
    if _is_fast():
        return fast_execute.FastNotifications(connection, heard, lost)
    return async_plain_execute.PlainNotifications(connection, heard, lost)


def check(connection: psycopg.Connection[Any]) -> None:
    """Raise an error if the server has closed the connection.

    A restart of the database leaves dead connections in the pool. This finds them before they fail
    a call.
    """
    if _is_fast():
        fast_execute.check_open(connection)
    elif _has_input(connection):
        ConnectionPool.check_connection(connection)


async def async_check(connection: AsyncConnection[Any]) -> None:
    if _is_fast():
        fast_execute.check_open(connection)
    elif _has_input(connection):
        await AsyncConnectionPool.check_connection(connection)


def _has_input(connection: Connection) -> bool:
    """Whether an idle connection has something to read, most likely its end.

    Without this test each call would need a round trip, and would wait for a database that hangs.
    """
    with _duplicate(connection) as duplicate:
        try:
            duplicate.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


def sever(connection: Connection) -> None:
    """Cut the connection. A call that waits on it finds it closed."""
    with suppress(psycopg.OperationalError, OSError), _duplicate(connection) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def _duplicate(connection: Connection) -> socket.socket:
    """The socket of a connection under another file descriptor, which may be closed."""
    return socket.socket(fileno=os.dup(connection.fileno()))
