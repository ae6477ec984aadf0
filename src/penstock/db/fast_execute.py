"""Runs a command that is alone in its transaction with little work in the driver.

A cursor of psycopg is general: it copies its adapters, parses the statement and waits in steps.
That takes 75 us, this module 30. psycopg still writes and reads the values.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from functools import cache
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, errors, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

from penstock.commands.command import Command
from penstock.errors import translated

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any] | AsyncConnection[Any]
_Key: TypeAlias = tuple[str, tuple[int, ...]]
# psycopg sometimes deallocates all statements, including ours, and a migration may change the
# columns of a statement. The statement has not run then, and can be prepared again.
_FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
_GOOD: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# The largest number of texts that are counted for each connection, and of statements prepared on
# it.
_MOST: Final = 200
# The time after which a connection goes back to its pool, which replaces old connections.
_KEPT_SECONDS: Final = 60.0


class FastExecutor:
    """Runs commands, each in its own transaction, on borrowed connections."""

    def __init__(
        self, borrow: Callable[[None], AbstractContextManager[psycopg.Connection[Any]]]
    ) -> None:
        self._borrow = borrow

    def run(self, command: Command[T]) -> T:
        with self._borrow(None) as connection, translated():
            talk = _talk(command, connection)
            next(talk)
            try:
                while True:
                    talk.send(connection.wait(generators.execute(connection.pgconn))[-1])
            except StopIteration as end:
                answer: T = end.value
                return answer

    def close(self) -> None:
        """It keeps no connections."""


class AsyncFastExecutor:
    """Runs commands on a few connections that it keeps. The most recently used one comes first.

    The server process of that connection has its data in the processor's caches. A pool lends the
    least recently used connection, whose process has not, and its checkout takes longer than
    sending the statement.
    """

    def __init__(
        self, borrow: Callable[[None], AbstractAsyncContextManager[AsyncConnection[Any]]], most: int
    ) -> None:
        self._borrow = borrow
        self._most = most
        self._kept: list[_Loan] = []
        self._closed = False

    async def run(self, command: Command[T]) -> T:
        loan = await self._take()
        try:
            return await loan.line.run(command)
        finally:
            if self._closed or len(self._kept) >= self._most or not loan.can_be_kept():
                await loan.give_back()
            else:
                self._kept.append(loan)

    async def close(self) -> None:
        """Return the connections, and keep none from now on."""
        self._closed = True
        while self._kept:
            await self._kept.pop().give_back()

    async def _take(self) -> _Loan:
        while self._kept:
            loan = self._kept.pop()
            if loan.line.is_open():
                return loan
            await loan.give_back()  # the pool opens another
        borrowed = AsyncExitStack()
        connection = await borrowed.enter_async_context(self._borrow(None))
        return _Loan(FastConnection(connection), borrowed)


class _Loan:
    """A connection that was borrowed and must be returned."""

    def __init__(self, line: FastConnection, borrowed: AsyncExitStack) -> None:
        self.line = line
        self._borrowed = borrowed
        self._until = monotonic() + _KEPT_SECONDS

    def can_be_kept(self) -> bool:
        return self.line.is_idle() and monotonic() < self._until

    async def give_back(self) -> None:
        self.line.close()
        await self._borrowed.aclose()


class FastConnection:
    """Commands on a connection whose socket is watched until `close`, not for each answer.

    Until then nothing else may use the connection.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._socket = self._pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] | None = None
        self._last: Any = None
        self._is_watched = True
        self._loop.add_reader(self._socket, self._read)

    def is_open(self) -> bool:
        """By reading the socket, as the pool does. The first read may find a last message."""
        try:
            self._pgconn.consume_input()
            self._pgconn.consume_input()
        except psycopg.Error:
            return False
        return True

    def is_idle(self) -> bool:
        return self._pgconn.transaction_status == TransactionStatus.IDLE

    async def run(self, command: Command[T]) -> T:
        """Run a command in its own transaction."""
        with translated():
            talk = _talk(command, self._connection)
            next(talk)
            try:
                while True:
                    talk.send(await self._answered())
            except StopIteration as end:
                answer: T = end.value
                return answer
            except asyncio.CancelledError:
                await self._stop()
                raise

    def close(self) -> None:
        """Release the socket, only once: the descriptor of a closed socket may be in use again."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)

    async def _answered(self) -> Any:
        """The answer to the last statement."""
        self._answer = self._loop.create_future()
        self._last = None
        if self._pgconn.flush():
            # The server reads no more until we have read its output.
            self._loop.add_writer(self._socket, self._write)
        last = await self._answer
        if last is None:
            raise psycopg.OperationalError("the connection was closed")
        return last

    async def _stop(self) -> None:
        """Cancel the statement of a caller that was cancelled, before it claims messages."""
        with suppress(psycopg.Error, OSError):
            async with asyncio.timeout(5):
                await self._connection.cancel_safe(timeout=5)
                if self._answer is not None:
                    self._answer = self._loop.create_future()
                    await self._answer

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
        """The results that have arrived. The last one is the answer."""
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
        self.close()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)


def check_open(connection: Connection) -> None:
    """Raise an error if the server has closed the connection, without a round trip.

    It reads twice, because the first read may find only the server's last message.
    """
    connection.pgconn.consume_input()
    connection.pgconn.consume_input()


class FastNotifications:
    """Reads notifications from the socket. psycopg would wake up ten times a second."""

    def __init__(
        self,
        connection: AsyncConnection[Any],
        heard: Callable[[str, str], None],
        lost: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._heard = heard
        self._lost = lost
        self._socket: int | None = None
        # For notifications that arrive with the answer to a statement.
        connection.add_notify_handler(lambda note: heard(note.channel, note.payload))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        self._socket = self._connection.fileno()
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        try:
            self._read()  # notifications that arrived with the last result
            yield
        finally:
            self._stop()

    def _read(self) -> None:
        try:
            self._connection.pgconn.consume_input()
            while note := self._connection.pgconn.notifies():
                self._heard(note.relname.decode(), note.extra.decode())
        except psycopg.OperationalError:
            self._stop()
            self._lost()

    def _stop(self) -> None:
        """Once, because the descriptor of a closed socket may belong to another connection."""
        number, self._socket = self._socket, None
        if number is not None:
            asyncio.get_running_loop().remove_reader(number)


class _Known:
    """The state of a connection: its adapters, and the statements that are prepared on it."""

    def __init__(self, connection: Connection) -> None:
        cursor = connection.cursor()
        # Django sets another time zone on its connections.
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        cursor.adapters.register_loader("timestamptz", TimestamptzBinaryLoader)
        # Arrays of 1,000 payloads are written in 0.4 ms instead of 7.
        cursor.adapters.register_dumper(list, ListBinaryDumper)
        self.values = Transformer(cursor)
        self.statements: dict[_Key, bytes] = {}
        self._uses: dict[_Key, int] = {}
        self._prepared = 0

    def new_name(self, key: _Key) -> bytes:
        """The name of a statement, never one that was used before on this connection.

        Because of the digest, a pooler in transaction mode cannot run another client's statement
        under the same name. An unknown or a duplicate name is an error, a wrong statement is not.
        """
        self._prepared += 1
        digest = blake2b(repr(key).encode(), digest_size=8).hexdigest().encode()
        return b"penstock_%d_%b" % (self._prepared, digest)

    def is_frequent(self, key: _Key, threshold: int | None) -> bool:
        """Whether it was used often enough to be prepared. Counts this use."""
        uses = self._uses.get(key, 0)
        if threshold is None or (not uses and len(self._uses) >= _MOST):
            return False
        self._uses[key] = uses + 1
        return uses >= threshold


_known: Final[WeakKeyDictionary[Connection, _Known]] = WeakKeyDictionary()


def _talk(command: Command[T], connection: Connection) -> Generator[None, Any, T]:
    """Sends messages and reads the answers. Each `yield` waits for one."""
    known = _known.get(connection)
    if known is None:
        known = _known[connection] = _Known(connection)
    pgconn, values, params = connection.pgconn, known.values, command.params
    sql = command.alone
    text, names, formats = _numbered(sql)
    dumped = values.dump_sequence([params[name] for name in names], formats)
    key = sql, tuple(values.types or ())
    name = known.statements.get(key)
    if name is not None:
        pgconn.send_query_prepared(name, dumped, values.formats, Format.BINARY)
        try:
            return _decoded(command, values, (yield))
        except _FORGOTTEN:
            known.statements.clear()
    elif not known.is_frequent(key, connection.prepare_threshold):
        pgconn.send_query_params(text, dumped, key[1], values.formats, Format.BINARY)
        return _decoded(command, values, (yield))
    name = known.new_name(key)
    pgconn.send_prepare(name, text, key[1])
    _checked((yield))
    known.statements[key] = name
    pgconn.send_query_prepared(name, dumped, values.formats, Format.BINARY)
    return _decoded(command, values, (yield))


def _decoded(command: Command[T], values: Any, result: Any) -> T:
    values.set_pgresult(_checked(result))
    return command.decode(values.load_rows(0, result.ntuples, tuple))


def _checked(result: Any) -> Any:
    if result.status not in _GOOD:
        raise error_from_result(result, encoding="utf-8")
    return result


@cache
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...], list[PyFormat]]:
    """The statement with numbered parameters, the names in that order, and their formats."""
    names = Command.names(sql)
    return Command.numbered_text(sql).encode(), names, [PyFormat.AUTO] * len(names)
