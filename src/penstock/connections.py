# Generated from connections_async.py by tools/generate_client.py: change that file, not this.
"""Where the statements of a client run: on its pool, or on the caller's own connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from psycopg import Connection, Cursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from penstock import insights
from penstock.command import Command, Rows
from penstock.errors import (
    DatabaseUnavailableError,
    InvalidValueError,
    PenstockError,
    SchemaNewerError,
    translated,
)
from penstock.quick import Alone
from penstock.twins import check, locate, use_iso_dates

T = TypeVar("T")
AnyConnection: TypeAlias = Connection[Any]
Pool: TypeAlias = ConnectionPool[AnyConnection]


class Connections:
    """A pool that opens at the first use; each call may bring a connection of its own instead."""

    def __init__(
        self,
        dsn: str | None,
        connection: AnyConnection | None,
        *,
        min_size: int,
        max_size: int,
        timeout: float,
        prepare_threshold: int | None,
    ) -> None:
        self._dsn = dsn
        self._own = None if connection is None else _checked(connection)
        self._sizes = (min_size, max_size)
        self._timeout = timeout
        self._options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": prepare_threshold,
            "fallback_application_name": "penstock",
        }
        self._pool: Pool | None = None
        # Of few connections none is kept: all the others would wait for what is left.
        self._alone = Alone(self.borrow, most=max_size // 3)
        self._lent: set[AnyConnection] = set()
        self._opening = Lock()
        self._closed = False

    def run(self, command: Command[T], connection: AnyConnection | None = None) -> T:
        """Run one command; alone it is a transaction, on the caller's connection part of one."""
        if connection is None and self._own is None:
            return self._alone.run(command)
        with self.borrow(connection) as borrowed:
            return command.decode(_execute(command, borrowed))

    @contextmanager
    def borrow(self, connection: AnyConnection | None) -> Iterator[AnyConnection]:
        """The caller's connection, or one of the pool's."""
        if connection is not None:
            yield _checked(connection)
        elif self._own is not None:
            yield self._own
        else:
            pool, borrowed = self._take()
            self._lent.add(borrowed)
            try:
                yield borrowed
            finally:
                self._lent.discard(borrowed)
                pool.putconn(borrowed)

    @contextmanager
    def transaction(self, connection: AnyConnection | None) -> Iterator[AnyConnection]:
        """All or nothing; inside the caller's transaction it is a savepoint, never a commit."""
        with self.borrow(connection) as borrowed, ExitStack() as stack:
            with translated():
                if not borrowed.autocommit and _is_idle(borrowed):
                    # The caller's transaction has yet to begin: without this, ours would be the
                    # outermost one, and commit in the caller's name.
                    borrowed.execute("select 1")
                stack.enter_context(borrowed.transaction())
            yield borrowed
            with translated():
                stack.close()

    def open(self) -> None:
        """Find the database and look at its schema; errors come here rather than later."""
        if self._own is None:
            self._opened()
        else:
            _check_schema(self._own)

    def close(self) -> None:
        """Give the pool's connections back. The caller's own stay as they are."""
        self._closed = True
        self._alone.close()
        if self._pool is not None:
            self._pool.close()

    def _opened(self) -> Pool:
        if self._closed:
            raise PenstockError(
                "the client is closed", hint="Use it inside its `with` block, or make a new one."
            )
        if self._pool is not None:
            return self._pool
        with self._opening:
            if self._pool is None:
                self._pool = self._make_pool()
        return self._pool

    def _make_pool(self) -> Pool:
        dsn = locate(self._dsn)
        # A host that does not answer should be an error soon; libpq by itself waits for minutes.
        if "connect_timeout" not in conninfo_to_dict(dsn):
            self._options["connect_timeout"] = 10
        # A pool only says that it timed out; a connection of our own says why.
        with translated():
            probe = Connection.connect(dsn, **self._options)
        with probe:
            _check_schema(probe)
        min_size, max_size = self._sizes
        pool = ConnectionPool(
            dsn,
            kwargs=self._options,
            min_size=min_size,
            max_size=max_size,
            timeout=self._timeout,
            configure=use_iso_dates,
            check=check,
            open=False,
            name="penstock",
        )
        pool.open()
        return pool

    def _take(self) -> tuple[Pool, AnyConnection]:
        pool = self._opened()
        try:
            return pool, pool.getconn()
        except (PoolTimeout, PoolClosed) as exc:
            _, max_size = self._sizes
            if len(self._lent) >= max_size:
                raise DatabaseUnavailableError(
                    f"no connection came free in {self._timeout:g} s: all {max_size} are in use",
                    hint="Raise max_size, or hold connections for shorter.",
                ) from exc
        pool = self._renewed(pool)
        with translated():
            return pool, pool.getconn()

    def _renewed(self, pool: Pool) -> Pool:
        """A new pool, or the reason why there is none.

        The old one tries to connect again at ever longer intervals, in the end of minutes: a
        database that is back should be in use at once.
        """
        with self._opening:
            if self._pool is pool and not self._closed:
                self._pool = self._make_pool()
                pool.close(timeout=0)
        return self._opened()


def _execute(command: Command[Any], connection: AnyConnection) -> Rows:
    with translated():
        # Not connection.cursor(): the caller's may make dicts of rows, or bind on the client.
        cursor = Cursor(connection, row_factory=tuple_row)
        # Django's connections give times another zone. Arrays of 1,000 payloads are written in
        # 0.4 ms instead of 7. Both together cost 5 us a call.
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        cursor.adapters.register_dumper(list, ListBinaryDumper)
        cursor.execute(command.sql.encode(), command.params)
        return cursor.fetchall()


def _check_schema(connection: AnyConnection) -> None:
    command = insights.schema_version()
    found = command.decode(_execute(command, connection))
    known = insights.known_schema_version()
    if found > known:
        raise SchemaNewerError(
            f"the database has schema version {found}, this client knows {known}",
            hint="Upgrade the penstock package here.",
            found=found,
            known=known,
        )


def _checked(connection: Any) -> AnyConnection:
    if isinstance(connection, Connection):
        return connection
    allowed = "a psycopg Connection"
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidValueError(
        f"connection is a {kind}; allowed: {allowed}",
        hint="SQLAlchemy: session.connection().connection.driver_connection. "
        "Django: connection.connection. asyncpg: see penstock.operations.",
        field="connection",
        value=kind,
        allowed=allowed,
    )


def _is_idle(connection: AnyConnection) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE
