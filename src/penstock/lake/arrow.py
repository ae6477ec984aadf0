"""A query of PostgreSQL as Arrow, through ADBC: no row is ever a Python object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg.conninfo import make_conninfo

from penstock.errors import DatabaseUnavailableError, PenstockError
from penstock.lake.statements import statement

APPLICATION = "penstock spark"


class ArrowSession:
    """One connection of one task; each query is a transaction of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def table(self, query: str) -> pa.Table:
        """All of it, in memory: no snapshot stays open while Spark takes its time."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement("planner"))
            cursor.fetchall()
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
        self._connection.commit()
        return table

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Piece by piece; the snapshot stays open until the last."""
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
        self._connection.commit()


@contextmanager
def arrow_session(dsn: str) -> Iterator[ArrowSession]:
    try:
        address = make_conninfo(dsn, fallback_application_name=APPLICATION)
        with adbc.connect(address) as connection:
            yield ArrowSession(connection)
    except adbc.Error as error:
        raise _translated(error) from error


def _translated(error: adbc.Error) -> PenstockError:
    text = " ".join(str(error).split())
    if isinstance(error, adbc.OperationalError):
        return DatabaseUnavailableError(f"the database is not available: {text}")
    return PenstockError(f"the read failed: {text}")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same values under exactly this schema: Spark takes nothing that differs."""
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
