"""The columns that the sink takes, and how a batch of them goes into COPY."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.errors import InvalidValueError
from penstock.lake.naming import closest


@dataclass(frozen=True, slots=True)
class Target:
    """A column of penstock_incoming: the types that go into it, and in words."""

    name: str
    types: tuple[type[DataType], ...]
    allowed: str


_TEXT: Final = ((StringType,), "a string")
_JSON_HINT: Final = "a string of JSON: see to_json"
TARGETS: Final = {
    "queue": Target("queue", *_TEXT),
    "payload": Target("payload", (StringType, BinaryType), f"binary, or {_JSON_HINT}"),
    "payload_bytes": Target("payload_bytes", (BinaryType,), "binary"),
    "headers": Target("headers", (StringType, MapType), f"a map of strings, or {_JSON_HINT}"),
    "key": Target("key", *_TEXT),
    "priority": Target("priority", (IntegralType,), "a whole number"),
    "group_key": Target("group_key", *_TEXT),
    "delay_seconds": Target("delay_seconds", (NumericType,), "a number"),
    "visible_at": Target("visible_at", (TimestampType,), "a timestamp"),
    "ttl_seconds": Target("ttl_seconds", (NumericType,), "a number"),
    "max_attempts": Target("max_attempts", (IntegralType,), "a whole number"),
}


def incoming_columns(schema: StructType) -> tuple[str, ...]:
    """Where each column of the DataFrame goes; refuses what means nothing."""
    columns = []
    for field in schema.fields:
        target = TARGETS.get(field.name)
        if target is None:
            raise InvalidValueError(
                f"the sink has no column {field.name!r}{closest(field.name, TARGETS)}",
                hint=f"Allowed are: {', '.join(TARGETS)}.",
                field=field.name,
            )
        if not isinstance(field.dataType, target.types):
            raise InvalidValueError(
                f"column {field.name} is {field.dataType.simpleString()}; "
                f"allowed: {target.allowed}",
                field=field.name,
                allowed=target.allowed,
            )
        is_bytes = field.name == "payload" and isinstance(field.dataType, BinaryType)
        columns.append("payload_bytes" if is_bytes else field.name)
    if not {"payload", "payload_bytes"} & set(columns):
        raise InvalidValueError(
            "the sink needs a column payload",
            hint="Make one, such as: select(to_json(struct('*')).alias('payload')).",
            field="payload",
        )
    if len(set(columns)) < len(columns):
        raise InvalidValueError(
            "payload is binary, and there is a payload_bytes as well",
            hint="Leave one of them out.",
            field="payload_bytes",
        )
    return tuple(columns)


def as_csv(batch: pa.RecordBatch) -> bytes:
    """Text quoted, null empty: as COPY reads it."""
    columns = [_csv_ready(column) for column in batch.columns]
    ready = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    buffer = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    pa.csv.write_csv(ready, buffer, options)
    return buffer.getvalue()


def _csv_ready(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()])
    if pa.types.is_map(column.type):
        return pa.array(list(_maps(column.to_pylist())), pa.string())
    return column


def _maps(values: list[Any]) -> Iterator[str | None]:
    for value in values:
        yield None if value is None else json.dumps(dict(value))
