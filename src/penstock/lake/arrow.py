"""A query of PostgreSQL as Arrow, through ADBC: no row is ever a Python object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg.conninfo import make_conninfo
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, VariantType, VariantVal

from penstock.errors import DatabaseUnavailableError, PenstockError
from penstock.lake.statements import statement

APPLICATION: Final = "penstock spark"
_VARIANT: Final = StructType([StructField("variant", VariantType())])
VARIANT_FIELDS: Final = list(to_arrow_schema(_VARIANT).field(0).type)


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
        _conformed(array, field.type) for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conformed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    return _variants(array) if pa.types.is_struct(wanted) else array.cast(wanted)


def _variants(texts: pa.Array) -> pa.Array:
    """JSON as Spark's VARIANT, which is parsed here in Python: 20,000 values a second or so."""
    parsed = [None if text is None else VariantVal.parseJson(text) for text in texts.to_pylist()]
    fields = {
        "value": [b"" if each is None else each.value for each in parsed],
        "metadata": [b"" if each is None else each.metadata for each in parsed],
    }
    nothing = pa.array([each is None for each in parsed])
    arrays = [pa.array(values, pa.binary()) for values in fields.values()]
    return pa.StructArray.from_arrays(arrays, fields=VARIANT_FIELDS, mask=nothing)
