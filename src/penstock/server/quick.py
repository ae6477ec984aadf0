"""The few statements that most requests are made of, by the shortest way through the driver.

A cursor of psycopg's is made to do anything: it reads the text of the statement, decides whether to
prepare it, and waits in turns. This does what is left where all of that is known beforehand; the
values are still psycopg's to write and to read.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import cache
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader

from penstock.command import Command
from penstock.connections_async import AnyConnection, AsyncConnections
from penstock.errors import translated

T = TypeVar("T")
# psycopg deallocates everything now and then, ours too; and a migration may change what a statement
# gives. Nothing has been done then, and it can be prepared anew.
_FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
_GOOD: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# After this long a connection goes back to its pool, which replaces those that have grown old.
_KEPT_SECONDS: Final = 60.0


class _Known:
    """What is known of a connection: how it writes and reads values, what was prepared on it."""

    def __init__(self, connection: AnyConnection) -> None:
        cursor = connection.cursor()
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        cursor.adapters.register_dumper(list, ListBinaryDumper)
        self.values = Transformer(cursor)
        self.statements: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._prepared = 0

    def new_name(self) -> bytes:
        """For a statement: never one that was in use before."""
        self._prepared += 1
        return b"penstock_%d" % self._prepared


_known: Final[WeakKeyDictionary[AnyConnection, _Known]] = WeakKeyDictionary()


class Quick:
    """Runs such statements, on connections that it keeps: the one used last is used next.

    The server process behind that one has everything at hand; a pool gives the one that has rested
    longest, which has not, and takes longer to ask than the statement to send.
    """

    def __init__(self, connections: AsyncConnections, most: int) -> None:
        self._connections = connections
        self._most = most
        self._kept: list[_Line] = []
        self._closed = False

    async def run(self, command: Command[T]) -> T:
        """Run a command that is a transaction of its own."""
        line = await self._take()
        try:
            with translated():
                return await line.run(command)
        finally:
            if self._closed or len(self._kept) >= self._most or not line.is_good():
                await line.give_back()
            else:
                self._kept.append(line)

    async def close(self) -> None:
        """Give back what is kept, and keep nothing from now on."""
        self._closed = True
        while self._kept:
            await self._kept.pop().give_back()

    async def _take(self) -> _Line:
        while self._kept:
            line = self._kept.pop()
            if line.is_open():
                return line
            await line.give_back()  # the pool makes another
        borrowed = AsyncExitStack()
        return _Line(await borrowed.enter_async_context(self._connections.borrow(None)), borrowed)


class _Line:
    """A borrowed connection. Its socket is watched until it is given back, not for each answer."""

    def __init__(self, connection: AnyConnection, borrowed: AsyncExitStack) -> None:
        self.connection = connection
        self._borrowed = borrowed
        self._until = monotonic() + _KEPT_SECONDS
        known = _known.get(connection)
        if known is None:
            known = _known[connection] = _Known(connection)
        self._known = known
        self._pgconn = connection.pgconn
        self._socket = self._pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] | None = None
        self._last: Any = None
        self._is_watched = True
        self._loop.add_reader(self._socket, self._read)

    def is_open(self) -> bool:
        """By a look at the socket, as the pool does it; twice, for the words of farewell."""
        try:
            self._pgconn.consume_input()
            self._pgconn.consume_input()
        except psycopg.Error:
            return False
        return True

    def is_good(self) -> bool:
        """Whether it can be kept for the next statement."""
        at_rest = self._pgconn.transaction_status == TransactionStatus.IDLE
        return at_rest and monotonic() < self._until

    async def give_back(self) -> None:
        self._unwatch()
        await self._borrowed.aclose()

    async def run(self, command: Command[T]) -> T:
        known = self._known
        text, names, formats = _prepared(command.sql)
        values = known.values
        params = command.params
        dumped = values.dump_sequence([params[name] for name in names], formats)
        kinds = tuple(values.types or ())
        pgconn = self._pgconn
        name = known.statements.get((command.sql, kinds))
        if name is not None:
            pgconn.send_query_prepared(name, dumped, values.formats)
            try:
                return _decoded(command, values, await self._answered())
            except _FORGOTTEN:
                known.statements.clear()
        name = known.new_name()
        pgconn.send_prepare(name, text, kinds)
        await self._answered()
        known.statements[command.sql, kinds] = name
        pgconn.send_query_prepared(name, dumped, values.formats)
        return _decoded(command, values, await self._answered())

    async def _answered(self) -> Any:
        """The answer to what was just sent; an error of psycopg's where it is one."""
        self._answer = self._loop.create_future()
        self._last = None
        if self._pgconn.flush():
            # It takes no more until we have read what it has to say.
            self._loop.add_writer(self._socket, self._write)
        last = await self._answer
        if last is None:
            raise psycopg.OperationalError("the connection was closed")
        if last.status not in _GOOD:
            raise error_from_result(last, encoding="utf-8")
        return last

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            if self._answer is not None:
                self._collect()
        except psycopg.Error as error:
            self._fail(error)

    def _write(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self._fail(error)

    def _collect(self) -> None:
        """The results that have arrived; the last of them is the answer."""
        assert self._answer is not None
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:
                answer, self._answer = self._answer, None
                if not answer.done():
                    answer.set_result(self._last)
                return
            self._last = result

    def _fail(self, error: psycopg.Error) -> None:
        self._unwatch()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _unwatch(self) -> None:
        """Once: a socket that was closed has given its number to another."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)


def _decoded(command: Command[T], values: Any, result: Any) -> T:
    values.set_pgresult(result)
    return command.decode(values.load_rows(0, result.ntuples, tuple))


@cache
def _prepared(sql: str) -> tuple[bytes, tuple[str, ...], list[PyFormat]]:
    """The statement with numbered parameters, their names in that order, and their formats."""
    names = Command.names(sql)
    return Command.numbered_text(sql).encode(), names, [PyFormat.AUTO] * len(names)
