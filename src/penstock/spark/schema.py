"""The columns of a source as Spark's own types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from penstock.spark.table_columns import Column

TYPES: Final[dict[str, type[DataType]]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "int": IntegerType,
    "string": StringType,
    "timestamp": TimestampType,
}


def source_schema(columns: Iterable[Column], *, variant: bool = False) -> StructType:
    """Every column is nullable. With `variant`, the payload has that type."""
    fields = []
    for column in columns:
        of_variant = variant and column.name == "payload"
        kind = VariantType if of_variant else TYPES[column.spark_type]
        fields.append(StructField(column.name, kind()))
    return StructType(fields)
