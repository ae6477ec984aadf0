# Generated from db/async_connections.py by tools/generate_client.py. Do not edit.
"""The connections of a client: its pool, or the caller's own connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

from penstock.commands import read
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.db import forks
from penstock.db.execute import check, executor
from penstock.db.locate import locate
from penstock.db.pools import ConnectionPool
from penstock.db.sync_plain_execute import execute
from penstock.db.sync_sqlalchemy import driver_connection, is_sqlalchemy
from penstock.errors import (
    ConnectionLimitError,
    InvalidValueError,
    PenstockError,
    SchemaNewerError,
    translated,
)

T = TypeVar("T")
AnyConnection: TypeAlias = Connection[Any]
Pool: TypeAlias = ConnectionPool[AnyConnection]


class Connections:
    """A pool that opens at the first use. Each call may pass its own connection instead."""

    def __init__(
        self,
        dsn: str | None,
        connection: Any,
        *,
        min_size: int,
        max_size: int,
        timeout: float,
        prepare_threshold: int | None,
    ) -> None:
        self._dsn = dsn
        self._own = connection
        if connection is not None and not is_sqlalchemy(connection):
            _checked(connection)
        self._sizes = (min_size, max_size)
        self._timeout = timeout
        self._options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": prepare_threshold,
            "fallback_application_name": "penstock",
        }
        self._closed = False
        self._own_is_parents = False
        self._start()
        forks.register(self)

    def _start(self) -> None:
        self._pool: Pool | None = None
        # A small pool keeps none back, because all other calls would wait for the rest.
        _, max_size = self._sizes
        self._alone = executor(self.borrow, most=max_size // 3)
        self._lent: set[AnyConnection] = set()
        self._opening = Lock()

    def _after_fork(self) -> None:
        """In a child process: forget the parent's connections, and open new ones."""
        forks.abandon(self._pool, self._alone, self._lent)
        self._own_is_parents = self._own is not None
        self._start()

    def run(self, command: Command[T], connection: Any = None) -> T:
        """Run one command, in its own transaction or in that of the caller's connection."""
        if connection is None and self._own is None:
            return self._alone.run(command)
        with self.borrow(connection) as borrowed:
            return command.decode(execute(borrowed, command, command.sql))

    @contextmanager
    def borrow(self, connection: Any) -> Iterator[AnyConnection]:
        """The caller's connection, or one of the pool's."""
        chosen = self._own if connection is None else connection
        if chosen is self._own and self._own_is_parents:
            raise PenstockError(
                "the client's connection was opened by the parent process",
                hint="Open a connection and make a client after the fork.",
            )
        if chosen is not None:
            # Looked up for each call, because a session has another connection after its commit.
            yield _checked(driver_connection(chosen))
        else:
            pool, borrowed = self._take()
            self._lent.add(borrowed)
            try:
                yield borrowed
            finally:
                self._lent.discard(borrowed)
                pool.putconn(borrowed)

    @contextmanager
    def transaction(self, connection: Any) -> Iterator[AnyConnection]:
        """All or nothing. Inside the caller's transaction it is a savepoint, never a commit."""
        with self.borrow(connection) as borrowed, ExitStack() as stack:
            with translated():
                if not borrowed.autocommit and _is_idle(borrowed):
                    # The caller's transaction has not begun yet. Without this, ours would be the
                    # outermost one, and would commit on behalf of the caller.
                    borrowed.execute("select 1")
                stack.enter_context(borrowed.transaction())
            yield borrowed
            with translated():
                stack.close()

    @property
    def lent(self) -> list[AnyConnection]:
        """The number of connections of the pool that are in use."""
        return list(self._lent)

    def open(self) -> None:
        """Find the database and check its schema, so that errors come here rather than later."""
        if self._own is None:
            self._opened()
        else:
            with self.borrow(None) as own:
                _check_schema(own)

    def close(self) -> None:
        """Close the pool's connections. Those of callers stay open."""
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
        # A host that does not answer should be an error soon. libpq waits for minutes by default.
        if "connect_timeout" not in conninfo_to_dict(dsn):
            self._options["connect_timeout"] = 10
        # A pool reports only a timeout. Our own connection reports the reason.
        with translated():
            probe = Connection.connect(dsn, **self._options)
        with probe:
            _check_schema(probe)
        min_size, max_size = self._sizes
        pool: Pool = ConnectionPool(
            dsn,
            kwargs=self._options,
            min_size=min_size,
            max_size=max_size,
            timeout=self._timeout,
            configure=_use_iso_dates,
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
                raise ConnectionLimitError(
                    f"no connection became free in {self._timeout:g} s: all {max_size} are in use",
                    hint="Raise max_size, or return connections sooner.",
                ) from exc
        pool = self._renewed(pool)
        with translated():
            return pool, pool.getconn()

    def _renewed(self, pool: Pool) -> Pool:
        """Return a new pool, or raise the reason why it cannot connect.

        The old pool tries to connect at ever longer intervals, up to minutes. The new one uses a
        database as soon as it is available again.
        """
        with self._opening:
            if self._pool is pool and not self._closed:
                self._pool = self._make_pool()
                pool.close(timeout=0)
        return self._opened()


def _use_iso_dates(connection: AnyConnection) -> None:
    """Have times written as the driver reads them, for any default of the database."""
    if not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
        connection.execute("set datestyle to ISO")


def _check_schema(connection: AnyConnection) -> None:
    command = read.schema_version()
    found = command.decode(execute(connection, command, command.sql))
    known = read.known_schema_version()
    if found <= known:
        return
    # A version that is older than the schema may run if the schema supports its clients.
    oldest = read.oldest_client()
    if oldest.decode(execute(connection, oldest, oldest.sql)) > known:
        raise SchemaNewerError(
            f"the database has schema version {found}, this client knows {known}",
            hint="Upgrade the penstock package here.",
            found=found,
            known=known,
        )


def _checked(connection: Any) -> AnyConnection:
    if isinstance(connection, Connection):
        return connection
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise _refused(
        f"is a {kind}",
        kind,
        "SQLAlchemy: use a postgresql+psycopg:// engine. "
        "Django: connection.connection in code that is not async, or penstock.django. "
        "asyncpg: only verbs of the async client that are one statement, such as enqueue, "
        "take it.",
    )


def given(connection: Any) -> Any:
    """The connection that a caller gave, or None for the pool.

    None from a caller is a mistake, as with Django's `connection.connection` after `close()`: the
    statements would not be part of the caller's transaction.
    """
    if connection is UNSET:
        return None
    if connection is None:
        raise _refused(
            "is None",
            None,
            "Leave `connection` out to use the client's own connections. "
            "Django: call connection.ensure_connection() first.",
        )
    return connection


def _refused(what: str, value: str | None, hint: str) -> InvalidValueError:
    allowed = "a psycopg Connection, or a SQLAlchemy session or connection"
    return InvalidValueError(
        f"connection {what}; allowed: {allowed}",
        hint=hint,
        field="connection",
        value=value,
        allowed=allowed,
    )


def _is_idle(connection: AnyConnection) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE
