"""A query of PostgreSQL as Arrow, through ADBC: no row is ever a Python object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa
from psycopg.conninfo import make_conninfo
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, VariantType, VariantVal

from penstock.errors import DatabaseUnavailableError, PenstockError
from penstock.spark.connection_cache import cached_connection
from penstock.spark.service_connection import APPLICATION
from penstock.spark.table_columns import SERVICE
from penstock.sql.loader import load_query

_VARIANT: Final = StructType([StructField("variant", VariantType())])
VARIANT_FIELDS: Final = list(to_arrow_schema(_VARIANT).field(0).type)


class ArrowSession:
    """One connection of one task at a time. Each query has its own transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def table(self, query: str) -> pa.Table:
        """The whole result, in memory, so that no snapshot stays open while Spark works on it."""
        return self.page(query, sys.maxsize)[0]

    def page(self, query: str, most_bytes: int) -> tuple[pa.Table, bool]:
        """The result up to `most_bytes` and one batch of ADBC, and whether that is all of it."""
        with self._connection.cursor() as cursor:
            cursor.execute(load_query("spark/planner"))
            cursor.fetchall()
            cursor.execute(query)
            with cursor.fetch_record_batch() as reader:
                batches, size = [], 0
                for batch in reader:
                    batches.append(batch)
                    size += batch.nbytes
                    if size >= most_bytes:
                        break  # closing the reader cancels the query
                table = pa.Table.from_batches(batches, reader.schema)
        self._connection.commit()
        return table, size < most_bytes

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """The result in pieces. The snapshot stays open until the last one."""
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()
        self._connection.commit()


@contextmanager
def arrow_session(dsn: str) -> Iterator[ArrowSession]:
    address = make_conninfo(dsn, fallback_application_name=APPLICATION)
    try:
        with cached_connection(address, adbc.connect, _check) as connection:
            yield ArrowSession(connection)
    except adbc.Error as error:
        raise _translated(error) from error


def _check(connection: adbc.Connection) -> None:
    ArrowSession(connection).table("select true")


def _translated(error: adbc.Error) -> PenstockError:
    text = " ".join(str(error).split())
    if isinstance(error, adbc.OperationalError):
        return DatabaseUnavailableError(f"the database is not available: {text}")
    return PenstockError(f"the read failed: {text}")


def conform(batch: pa.RecordBatch, schema: pa.Schema, service: str) -> pa.RecordBatch:
    """The same values under exactly this schema, with the service. Spark accepts no other."""
    found = iter(batch.columns)
    arrays = [
        pa.repeat(service, batch.num_rows)
        if field.name == SERVICE
        else _conformed(next(found), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conformed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    # JSON, and types that Arrow does not have, such as xid8.
    plain = array.storage if isinstance(array, pa.ExtensionArray) else array
    if plain.type == wanted:
        return plain
    if pa.types.is_struct(wanted):
        return _variants(plain)
    return _numbers(plain) if pa.types.is_binary(plain.type) else plain.cast(wanted)


def _numbers(values: pa.Array) -> pa.Array:
    """Eight bytes for each value, as PostgreSQL sends them. None is null."""
    if not len(values):
        return pa.array([], pa.int64())
    first = np.frombuffer(values.buffers()[1], np.int32)[values.offset]
    sent = np.frombuffer(values.buffers()[2], ">i8", len(values), first)
    return pa.array(sent.astype(np.int64))


def _variants(texts: pa.Array) -> pa.Array:
    """JSON as Spark's VARIANT. Python parses about 20,000 values a second."""
    parsed = [None if text is None else VariantVal.parseJson(text) for text in texts.to_pylist()]
    fields = {
        "value": [b"" if each is None else each.value for each in parsed],
        "metadata": [b"" if each is None else each.metadata for each in parsed],
    }
    nothing = pa.array([each is None for each in parsed])
    arrays = [pa.array(values, pa.binary()) for values in fields.values()]
    return pa.StructArray.from_arrays(arrays, fields=VARIANT_FIELDS, mask=nothing)
