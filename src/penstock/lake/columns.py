"""The columns of every table of the lake: a contract with its readers.

New columns are added at the end of their table. They are null in older files. `day` (and `queue`,
except in gold) are in the path of a file, not in the file.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.lake.layout import (
    BRONZE_ATTEMPTS,
    BRONZE_HISTORY,
    GOLD_ERROR_DAY,
    GOLD_QUEUE_DAY,
    GOLD_QUEUE_MINUTE,
    GOLD_WORKER_MINUTE,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
    SILVER_QUARANTINE,
    LakeTable,
)
from penstock.spark.table_columns import ATTEMPTS, HISTORY, Table

# Incremented when a column is added. An older Penstock does not write to a newer lake.
LAYOUT_VERSION: Final = 1

_TYPES: Final[dict[str, type[DataType]]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "date": DateType,
    "double": DoubleType,
    "int": IntegerType,
    "string": StringType,
    "timestamp": TimestampType,
}
_COUNTS: Final = """
    finished BIGINT, done BIGINT, dead BIGINT, expired BIGINT, cancelled BIGINT, superseded BIGINT,
    retried BIGINT, failed_attempts BIGINT,
    wait_seconds_p50 DOUBLE, wait_seconds_p95 DOUBLE, wait_seconds_p99 DOUBLE,
    work_seconds_p50 DOUBLE, work_seconds_p95 DOUBLE, work_seconds_p99 DOUBLE,
    end_to_end_seconds_p50 DOUBLE, end_to_end_seconds_p95 DOUBLE, end_to_end_seconds_p99 DOUBLE,
    backlog_age_seconds DOUBLE, work_seconds DOUBLE, payload_bytes BIGINT, payload_bytes_max BIGINT,
    wait_seconds_histogram STRING, work_seconds_histogram STRING,
    end_to_end_seconds_histogram STRING
"""


def _landed(table: Table) -> str:
    """In the form of the source, with the partitions at the end."""
    within = (f"{c.name} {c.spark_type}" for c in table.columns if c.name != "queue")
    return f"{', '.join(within)}, day DATE, queue STRING"


_DDL: Final = {
    BRONZE_HISTORY: _landed(HISTORY),
    BRONZE_ATTEMPTS: _landed(ATTEMPTS),
    SILVER_MESSAGES: """
        service STRING, id BIGINT, state STRING, enqueued_at TIMESTAMP, first_claimed_at TIMESTAMP,
        last_claimed_at TIMESTAMP, finished_at TIMESTAMP, attempts INT, max_attempts INT,
        priority INT, key STRING, group_key STRING, worker STRING, wait_seconds DOUBLE,
        work_seconds DOUBLE, end_to_end_seconds DOUBLE, payload_kind STRING, payload STRING,
        payload_bytes BINARY, payload_bytes_count INT, headers STRING, headers_bytes_count INT,
        last_error STRING, error_kind STRING, error_fingerprint STRING, day DATE, queue STRING
    """,
    SILVER_ATTEMPTS: """
        service STRING, message_id BIGINT, attempt INT, worker STRING, started_at TIMESTAMP,
        ended_at TIMESTAMP, work_seconds DOUBLE, state STRING, error STRING, error_kind STRING,
        error_fingerprint STRING, day DATE, queue STRING
    """,
    SILVER_QUARANTINE: """
        service STRING, id BIGINT, state STRING, enqueued_at TIMESTAMP, finished_at TIMESTAMP,
        attempts INT, priority INT, key STRING, group_key STRING, payload STRING,
        payload_bytes BINARY, headers STRING, rule STRING, reason STRING, day DATE, queue STRING
    """,
    GOLD_QUEUE_MINUTE: f"queue STRING, minute TIMESTAMP, {_COUNTS}, day DATE",
    GOLD_QUEUE_DAY: f"queue STRING, {_COUNTS}, day DATE",
    GOLD_ERROR_DAY: """
        queue STRING, error_fingerprint STRING, error_kind STRING, error STRING,
        retries BIGINT, dead BIGINT, first_at TIMESTAMP, last_at TIMESTAMP, day DATE
    """,
    GOLD_WORKER_MINUTE: """
        queue STRING, worker STRING, minute TIMESTAMP, finished BIGINT, failed_attempts BIGINT,
        busy_seconds DOUBLE, day DATE
    """,
}


def source_schema(table: Table) -> StructType:
    """In the form of the source."""
    return _struct(", ".join(f"{column.name} {column.spark_type}" for column in table.columns))


def schema(table: LakeTable) -> StructType:
    """In the form that Spark reads and writes."""
    if table.declared_schema is not None:
        return StructType.fromJson(json.loads(table.declared_schema))
    return _struct(_DDL[table])


def _struct(ddl: str) -> StructType:
    """Our own parser, because Spark's is in the JVM, which tasks do not have."""
    parts = (part.split() for part in ddl.split(","))
    return StructType([StructField(name, _TYPES[kind.lower()]()) for name, kind in parts])


def names(table: LakeTable) -> list[str]:
    return schema(table).fieldNames()


def arrow(table: LakeTable) -> pa.Schema:
    """As Arrow, with the partitions."""
    return to_arrow_schema(schema(table), timezone="UTC")


def file_arrow(table: LakeTable) -> pa.Schema:
    """As Arrow, as in a file: without the partitions."""
    return pa.schema([field for field in arrow(table) if field.name not in table.partitions])
