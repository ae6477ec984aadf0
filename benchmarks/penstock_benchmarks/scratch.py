"""The objects that a benchmark creates in the database, and their removal.

The plain table lives in schema `penstock_bench`, Penstock's messages in queues named `bench-...`.
Schema `penstock` itself is installed where it is missing, and then removed again too.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psycopg

from penstock.db.migrations import Migrator
from penstock_benchmarks import wire
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.session import Session, System
from penstock_benchmarks.statements import plain_table, statement

Connection = psycopg.Connection[tuple[Any, ...]]

HISTORY_OFF: Mapping[str, Any] = {"keep_history": 0}
HISTORY_ON: Mapping[str, Any] = {"keep_history": 1}

_SCHEMAS = {System.PENSTOCK: "penstock", System.PLAIN: "penstock_bench"}
_DRAIN_COUNT = 1000


@dataclass(frozen=True)
class Disk:
    heap: int
    index: int

    @property
    def total(self) -> int:
        return self.heap + self.index


class Scratch:
    """The benchmark's own connection, and a session on each system for untimed work."""

    def __init__(self, dsn: str, connection: Connection) -> None:
        self.dsn = dsn
        self.connection = connection
        self.sessions: dict[StrEnum, Session] = {
            system: Session(dsn, system, "bench-scratch") for system in System
        }
        for session in self.sessions.values():
            session.synchronous_commit(False)

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def run(self, name: str, **parameters: Any) -> Any:
        """The first value that a statement of statements.sql answers with, if it does."""
        cursor = self.connection.execute(statement(name), parameters or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def drain(self, system: StrEnum, queue: str) -> int:
        """Claims and acks what a window left behind: how many messages that was."""
        session, drained = self.sessions[system], 0
        while settled := session.ack(session.claim(queue.encode(), wire.int4(_DRAIN_COUNT))):
            drained += settled
        return drained

    def purge(self, system: StrEnum, queue: str) -> None:
        self.run(f"{system}.purge", **({"queue": queue} if system is System.PENSTOCK else {}))
        self.tidy(system)

    def tidy(self, system: StrEnum) -> None:
        """The upkeep that each system has: vacuum, or Penstock's own."""
        self.run(f"{system}.tidy")

    def checkpoint(self) -> bool:
        """Now, and not in the middle of what is measured next; whether the user may."""
        try:
            self.connection.execute("checkpoint")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    def disk(self, system: System) -> Disk:
        query = statement("disk_bytes")
        row = self.connection.execute(query, {"schema": _SCHEMAS[system]}).fetchone()
        assert row is not None
        return Disk(*row)


@contextmanager
def scratch(
    dsn: str, queues: Mapping[str, Mapping[str, Any]], plain_order: str
) -> Iterator[Scratch]:
    """Everything in place, with these queues and settings; all of it gone afterwards."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        _alone(connection)
        installed = _install(connection)
        try:
            _clear(connection, queues)
            connection.execute(plain_table(plain_order).encode())
            for name, settings in queues.items():
                parameters = {"name": name, "settings": json.dumps(settings)}
                connection.execute(statement("create_queue"), parameters)
                connection.execute(statement("plain.create_queue"), {"name": name})
            place = Scratch(dsn, connection)
            try:
                yield place
            finally:
                place.close()
        finally:
            _clean_up(dsn, queues, installed)


def _alone(connection: Connection) -> None:
    """Two benchmarks in one database would drop each other's tables."""
    row = connection.execute(statement("lock")).fetchone()
    if row != (True,):
        raise BenchError(
            "another penstock bench is running in this database",
            hint="Wait for it to end, or run this one in another database.",
        )
    row = connection.execute(statement("schema_comment")).fetchone()
    if row not in ((False, None), (True, "scratch of penstock bench")):
        raise BenchError(
            "there is a schema penstock_bench that penstock bench did not make",
            hint="Rename it, or run the benchmark in another database.",
        )


def _install(connection: Connection) -> bool:
    """Whether schema penstock was missing and has been brought in."""
    migrator = Migrator(connection)
    status = migrator.status()
    if status.current is None:
        migrator.up()
        return True
    if status.pending:
        raise BenchError(
            "schema penstock in this database is older than this Penstock",
            hint="Run `penstock migrate up` first.",
        )
    return False


def _clean_up(dsn: str, queues: Mapping[str, Any], installed: bool) -> None:
    # On a separate connection, because Ctrl-C may have interrupted a statement on the other one.
    with psycopg.connect(dsn, autocommit=True) as connection:
        _clear(connection, queues)
        if installed and connection.execute(statement("foreign_queues")).fetchone() == (0,):
            connection.execute(statement("drop_penstock"))


def _clear(connection: Connection, queues: Mapping[str, Any]) -> None:
    """Drops what this run or one that was killed has left."""
    connection.execute(statement("drop_plain"))
    leftover = {name for (name,) in connection.execute(statement("leftover_queues"))}
    for name in leftover:
        connection.execute(statement("drop_queue"), {"name": name})
    forget = {"queues": [*(leftover | set(queues))]}
    connection.execute(statement("forget_history"), forget)
    connection.execute(statement("forget_attempts"), forget)
