"""The values that a batch sends to PostgreSQL, of every type and null, and refused ones."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.conftest import Connect

from penstock.errors import (
    DatabaseUnavailableError,
    InvalidValueError,
    SchemaMissingError,
    SchemaNewerError,
)
from penstock.spark.binary_arrays import encode_column, register_arrays
from penstock.spark.source import PenstockSource

WHEN = datetime(2031, 5, 6, 7, 8, 9, 123456, UTC)
COLUMNS: dict[str, pa.Array] = {
    "payload": pa.array(['{"a": "ü,\\"\\n"}', None, "[]"]),
    "payload_bytes": pa.array([None, b"\x00\xff,\n", b""]),
    "headers": pa.array([[("a", "b")], None, []], pa.map_(pa.string(), pa.string())),
    "key": pa.array(["k", None, '"'], pa.large_string()),
    "priority": pa.array([-9, None, 9], pa.int64()),
    "group_key": pa.array([None, None, None], pa.string()),
    "delay_seconds": pa.array([Decimal("1.5"), None, Decimal("0.0")]),
    "visible_at": pa.array([WHEN, None, datetime(1969, 1, 1, tzinfo=UTC)]),
    "ttl_seconds": pa.array([1, None, 7], pa.int32()),
    "max_attempts": pa.array([None, 100, 1], pa.int8()),
}
ROWS = [
    ({"a": 'ü,"\n'}, None, {"a": "b"}, "k", -9, None, 1.5, WHEN, 1.0, None),
    (None, b"\x00\xff,\n", None, None, None, None, None, None, None, 100),
    ([], b"", {}, '"', 9, None, 0.0, datetime(1969, 1, 1, tzinfo=UTC), 7.0, 1),
]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_every_type_arrives_as_it_was(connect: Connect, first: int) -> None:
    batch = pa.RecordBatch.from_arrays(list(COLUMNS.values()), names=list(COLUMNS)).slice(first)
    connection: Any = connect()
    register_arrays(connection)
    encoded = [encode_column(batch[name], name) for name in COLUMNS]
    given = [array for array in encoded if array is not None]
    unnested = f"select * from unnest({', '.join(['%s'] * len(given))})"
    found = iter(zip(*connection.execute(unnested, given).fetchall(), strict=True))
    nothing = (None,) * batch.num_rows
    columns = [nothing if array is None else next(found) for array in encoded]
    assert list(zip(*columns, strict=True)) == ROWS[first:]


def test_a_number_that_does_not_fit_is_named() -> None:
    with pytest.raises(InvalidValueError, match="column priority is out of range"):
        encode_column(pa.array([2**40]), "priority")


def test_a_database_that_cannot_be_used_says_why_before_any_task_begins(
    connect: Connect, dsn: str, empty_dsn: str
) -> None:
    def writer(dsn: str) -> None:
        schema = StructType([StructField("payload", StringType())])
        PenstockSource({"dsn": dsn, "queue": "mail"}).writer(schema, False)

    writer(dsn)
    with pytest.raises(SchemaMissingError, match="migrate up"):
        writer(empty_dsn)
    with pytest.raises(DatabaseUnavailableError):
        writer("postgresql://localhost:1/nowhere")
    values = "(version, name, checksum) values (9999, 'x', 'y')"
    connect().execute(f"insert into penstock.migration {values}")
    with pytest.raises(SchemaNewerError, match="9999"):
        writer(dsn)


def test_what_plans_and_commits_a_write_loads_no_arrow() -> None:
    """Spark starts a Python for each: with Arrow, ADBC and pandas they took half a second more."""
    loaded = "{'pyarrow', 'pandas', 'adbc_driver_postgresql'} & set(sys.modules)"
    program = f"import sys, pyspark_penstock, penstock.spark.sink; print({loaded})"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout == "set()\n"
