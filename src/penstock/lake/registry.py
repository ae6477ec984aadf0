"""The lake in PostgreSQL: its registration, its progress, and the lock of its writers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from penstock.errors import translated
from penstock.lake.layout import BRONZE, SILVER, LakeTable
from penstock.lake.storage.ledger import State
from penstock.spark.offsets import LogOffset
from penstock.spark.options import Service
from penstock.spark.service_connection import connect


@dataclass(frozen=True, slots=True)
class Lag:
    """What a lake lacks; `rows` are counted up to a hundred thousand.

    The lag of a layer is the age of the newest data in it, or 0 if it holds all that has finished.
    """

    rows: int = 0
    bronze: float = 0.0
    silver: float = 0.0
    gold: float = 0.0


class Registry:
    """One connection, opened again when it is lost. Every call has its own transaction."""

    def __init__(self, service: Service, name: str) -> None:
        self.service = service
        self.name = name
        self._connection: psycopg.Connection[Any] | None = None

    def register(self, path: str, format: str) -> None:
        self.call("select penstock.register_lake(%s, %s, %s)", self.name, path, format)

    def landed(self, state: State, rows: int = 0, size: int = 0) -> None:
        """Stores the progress of the lake. History that it has may be dropped."""
        seen = [_seen(state, table.path) for table in BRONZE]
        query = "select penstock.lake_landed(%s, %s::pg_snapshot, %s::pg_snapshot, %s, %s)"
        self.call(query, self.name, *seen, rows, size)

    def release(self) -> bool:
        return bool(self.call("select penstock.release_lake(%s)", self.name)[0][0])

    def lag(self) -> Lag:
        query = (
            "select lag_rows, bronze_lag_seconds, silver_lag_seconds, gold_lag_seconds"
            " from penstock.lakes where name = %s"
        )
        rows = self.call(query, self.name)
        return Lag(*rows[0]) if rows else Lag()

    def newest(self, state: State, *, published: bool = False) -> None:
        """Stores the age of the data in each layer. Gold is as old as its silver."""
        bronze, silver = (_newest(state, tables) for tables in (BRONZE, SILVER))
        pending = sum(state.files[path].rows for path in state.pending)
        query = "select penstock.lake_newest(%s, %s, %s, %s, %s)"
        self.call(query, self.name, bronze, silver, silver if published else None, pending)

    def call(self, query: str, *arguments: Any) -> list[Any]:
        with translated():
            return self.connection().execute(query.encode(), arguments).fetchall()

    def connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.service)
        return self._connection

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Excludes other writers of this lake for a moment."""
        with translated():
            connection = self.connection()
            with connection.transaction():
                query = b"select pg_advisory_xact_lock(1885695611, hashtext(%s))"
                connection.execute(query, [self.name])
                yield

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _newest(state: State, tables: Iterable[LakeTable]) -> datetime | None:
    """The end of the newest row of these tables."""
    ends = [f.at_max for table in tables for f in state.of(table) if f.at_max is not None]
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=max(ends)) if ends else None


def _seen(state: State, table: str) -> str | None:
    """The snapshot whose rows have all landed, or None before the first batch."""
    offset = state.offsets.get(table)
    if not offset:
        return None
    positions = LogOffset.from_json(offset, offset["table"]).positions
    return next((str(position.seen) for position in positions.values()), None)
