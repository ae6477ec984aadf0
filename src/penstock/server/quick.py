"""The few statements that most requests are made of, by the shortest way through the driver.

A cursor of psycopg's is made to do anything: it reads the text of the statement, decides whether to
prepare it, and waits in turns. This does what is left where all of that is known beforehand; the
values are still psycopg's to write and to read.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader

from penstock.command import Command
from penstock.connections_async import AnyConnection
from penstock.errors import translated

T = TypeVar("T")
# psycopg deallocates everything now and then, ours too; and a migration may change what a statement
# gives. Nothing has been done then, and it can be prepared anew.
_FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
_GOOD: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


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


async def run(command: Command[T], connection: AnyConnection) -> T:
    """Run a command that is alone on its connection: it is a transaction of its own."""
    known = _known.get(connection)
    if known is None:
        known = _known[connection] = _Known(connection)
    text, names, formats = _prepared(command.sql)
    values = known.values
    dumped = values.dump_sequence([command.params[name] for name in names], formats)
    kinds = tuple(values.types or ())
    pgconn = connection.pgconn
    with translated():
        name = known.statements.get((command.sql, kinds))
        if name is not None:
            pgconn.send_query_prepared(name, dumped, values.formats)
            try:
                return _decoded(command, values, await _answer(pgconn))
            except _FORGOTTEN:
                known.statements.clear()
        name = known.new_name()
        pgconn.send_prepare(name, text, kinds)
        await _answer(pgconn)
        known.statements[command.sql, kinds] = name
        pgconn.send_query_prepared(name, dumped, values.formats)
        return _decoded(command, values, await _answer(pgconn))


def _decoded(command: Command[T], values: Any, result: Any) -> T:
    values.set_pgresult(result)
    return command.decode(values.load_rows(0, result.ntuples, tuple))


@cache
def _prepared(sql: str) -> tuple[bytes, tuple[str, ...], list[PyFormat]]:
    """The statement with numbered parameters, their names in that order, and their formats."""
    names = Command.names(sql)
    return Command.numbered_text(sql).encode(), names, [PyFormat.AUTO] * len(names)


async def _answer(pgconn: Any) -> Any:
    """The answer to what was just sent; an error of psycopg's where it is one."""
    loop = asyncio.get_running_loop()
    last = None
    while pgconn.flush():
        # It takes no more until we have read what it has to say.
        await _ready(loop, pgconn.socket, writing=True)
        pgconn.consume_input()
    while True:
        while pgconn.is_busy():
            await _ready(loop, pgconn.socket)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        last = result
    if last is None:
        raise psycopg.OperationalError("the connection was closed")
    if last.status not in _GOOD:
        raise error_from_result(last, encoding="utf-8")
    return last


async def _ready(loop: asyncio.AbstractEventLoop, number: int, writing: bool = False) -> None:
    """Until the socket can be read; or written, too."""
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(number, wake)
    if writing:
        loop.add_writer(number, wake)
    try:
        await ready
    finally:
        loop.remove_reader(number)
        if writing:
            loop.remove_writer(number)
