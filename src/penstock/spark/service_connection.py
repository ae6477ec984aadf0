"""The driver's connection to a service: its database, its snapshots, and where to cut a log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.db.migration_plan import schema_target
from penstock.errors import ConfigurationError, SchemaNewerError, translated
from penstock.spark.log_cuts import Cut, Walk, Way
from penstock.spark.options import Service
from penstock.spark.snapshot_diff import Position, Snapshot, Span
from penstock.spark.table_columns import Table
from penstock.sql.loader import load_query

APPLICATION: Final = "penstock spark"
CONNECT_SECONDS: Final = 10
# So that no statement reads an index for more than a moment, for any amount of data.
ROWS_AT_ONCE: Final = 500_000


class Server:
    """Opened where it is used, never pickled."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._connection = connect(service)
        try:
            with translated():
                self.database = self._identify()
        except BaseException:
            self.close()
            raise

    def snapshot(self) -> Snapshot:
        with translated():
            (text,) = self._one("select pg_current_snapshot()::text")
        return Snapshot.parse(text)

    def flush(self) -> None:
        """All earlier commits are on disk after this.

        A commit without `synchronous_commit` is visible before it is durable. If PostgreSQL crashes
        then, it assigns the transaction id again, and an offset that had counted it as seen would
        skip the rows of the new transaction.
        """
        with translated(), self._connection.transaction():
            self._one("select set_config('synchronous_commit', 'on', true)")
            self._one("select pg_logical_emit_message(true, 'penstock', 'offset')::text")

    def cuts(
        self,
        table: Table,
        span: Span,
        row_filter: str,
        after: Position,
        until: Position,
        limit: int,
        step: int,
    ) -> tuple[list[Cut], bool]:
        """The cuts between two positions, one in each step, and the last one.

        Also whether there are more than `limit` rows.
        """
        found: list[Cut] = []
        counted = 0
        while True:
            # Even without room, find out whether there are more.
            piece = max(min(ROWS_AT_ONCE, limit - counted), 0)
            way = Way(table, span, row_filter, after, until)
            with translated():
                cuts, more = Walk(self._connection, way).cuts(piece, step)
            found += [Cut(cut.position, counted + cut.count) for cut in cuts]
            counted = found[-1].count if found else 0
            if not more or counted >= limit:
                return found, more
            after = found[-1].position

    def transaction(self) -> AbstractContextManager[object]:
        return self._connection.transaction()

    def call(self, function: str, *arguments: Any) -> Any:
        """The row of one of our SQL functions."""
        marks = ", ".join(["%s"] * len(arguments))
        (row,) = self.rows(f"select * from penstock.{function}({marks})", *arguments)
        return row

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        with translated():
            return self._connection.execute(query.encode(), parameters).fetchall()

    def _identify(self) -> str:
        database, standby, version, oldest = self._one(load_query("spark/identity"))
        if standby:
            raise ConfigurationError(
                f"service {self.service.name!r} is a standby",
                hint="Snapshots are valid on the primary only. Point the DSN to the primary.",
            )
        if oldest > schema_target():
            raise SchemaNewerError(
                f"the database of service {self.service.name!r} has schema version {version}, "
                f"this Penstock knows versions up to {schema_target()}",
                hint="Upgrade Penstock on the driver and on the executors.",
            )
        return str(database)

    def _one(self, query: str) -> Any:
        return self._connection.execute(query.encode()).fetchone()

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def connect(service: Service) -> psycopg.Connection[Any]:
    return connect_to(service.address())


def connect_to(address: str) -> psycopg.Connection[Any]:
    own = conninfo_to_dict(address)
    with translated():
        return psycopg.connect(
            address,
            autocommit=True,
            fallback_application_name=APPLICATION,
            prepare_threshold=None,  # a pooler may send the next transaction to another server
            connect_timeout=own.get("connect_timeout", CONNECT_SECONDS),
        )


def row_filter(table: Table, queues: str | None, initial: str) -> str:
    """The requested rows, as SQL."""
    parts = []
    if queues is not None:
        parts.append(sql.SQL("queue ~ {}").format(sql.Literal(queues)).as_string(None))
    if initial not in ("earliest", "latest"):
        since = sql.SQL(" >= {}::timestamptz").format(sql.Literal(initial)).as_string(None)
        parts.append(table.time + since)
    return " and ".join(parts) or "true"
