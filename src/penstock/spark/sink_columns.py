"""The columns that the sink accepts, and the checksums of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
from penstock.spark.naming import closest


@dataclass(frozen=True, slots=True)
class Target:
    """A column of a message: its types, and a description of them."""

    name: str
    types: tuple[type[DataType], ...]
    allowed: str


CHECKSUM_MODULUS: Final = 2**63 - 1  # of the checksums that spark_stage returns
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
    """The place of each column of the DataFrame. Refuses unknown columns."""
    columns = []
    for field in schema.fields:
        target = TARGETS.get(field.name)
        if target is None:
            raise InvalidValueError(
                f"the sink has no column {field.name!r}{closest(field.name, TARGETS)}",
                hint=f"Allowed: {', '.join(TARGETS)}.",
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
            hint="Add one, such as: select(to_json(struct('*')).alias('payload')).",
            field="payload",
        )
    if len(set(columns)) < len(columns):
        raise InvalidValueError(
            "payload is binary, and there is a payload_bytes as well",
            hint="Omit one of them.",
            field="payload_bytes",
        )
    return tuple(columns)
