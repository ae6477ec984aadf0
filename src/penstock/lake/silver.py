"""Bronze -> silver: one row for each message and each failed attempt, typed, with its durations.

A message is identified by its id and its time of enqueue, because a restored database may assign an
id again. Rows that land twice, because landing began again, are kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.lake import columns
from penstock.lake.layout import SILVER_ATTEMPTS, SILVER_MESSAGES
from penstock.model.error_masks import MASKS, TRACEBACK_LINE, TYPE

MESSAGE_KEY: Final = ("service", "id", "enqueued_at")
ATTEMPT_KEY: Final = ("service", "message_id", "attempt", "started_at")
_KIND_LENGTH: Final = 200


def messages(history: DataFrame) -> DataFrame:
    """One row for each finished message."""
    kind = error_kind(sf.col("last_error"))
    typed = (
        _first_of_each(history, MESSAGE_KEY)
        .withColumn("wait_seconds", _seconds("enqueued_at", "first_claimed_at"))
        .withColumn("work_seconds", _seconds("last_claimed_at", "finished_at"))
        .withColumn("end_to_end_seconds", _seconds("enqueued_at", "finished_at"))
        .withColumn("payload_kind", sf.when(sf.col("payload").isNull(), "bytes").otherwise("json"))
        .withColumn("error_kind", kind)
        .withColumn("error_fingerprint", fingerprint(kind))
    )
    return typed.select(*columns.names(SILVER_MESSAGES))


def attempts(log: DataFrame) -> DataFrame:
    """One row for each attempt that failed."""
    kind = error_kind(sf.col("error"))
    typed = (
        _first_of_each(log, ATTEMPT_KEY)
        .withColumn("work_seconds", _seconds("started_at", "ended_at"))
        .withColumn("error_kind", kind)
        .withColumn("error_fingerprint", fingerprint(kind))
    )
    return typed.select(*columns.names(SILVER_ATTEMPTS))


def unknown(new: DataFrame, known: DataFrame, key: Sequence[str]) -> DataFrame:
    """The new rows that silver does not have yet."""
    return new.join(known.select(*key), on=list(key), how="left_anti").select(*new.columns)


def error_kind(error: Column) -> Column:
    """The cause of an error, with ids, numbers, addresses and quoted values masked.

    It is the line with the exception of a Python traceback, otherwise the first line, because stack
    frames change with every release.
    """
    raised = sf.concat(*(sf.regexp_extract(error, TRACEBACK_LINE, group) for group in (1, 2)))
    first = sf.regexp_extract(error, r"(?s)^\s*([^\n\r]*)", 1)
    line = sf.trim(sf.when(raised != "", raised).otherwise(first))
    type_ = sf.regexp_extract(line, TYPE, 1)
    text = sf.substr(line, sf.length(type_) + 1)
    for pattern, mask in MASKS:
        text = sf.regexp_replace(text, pattern, mask)
    text = sf.regexp_replace(sf.concat(type_, text), r"\s+", " ")
    return sf.substring(text, 1, _KIND_LENGTH)


def fingerprint(kind: Column) -> Column:
    """A short name for a kind of error, the same in all tables."""
    return sf.substring(sf.md5(kind), 1, 12)


def _first_of_each(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    return frame.dropDuplicates(list(key))


def _seconds(start: str, end: str) -> Column:
    """Null if either is null. If the clock was put back, the duration is zero."""
    passed = sf.unix_micros(end) - sf.unix_micros(start)
    return sf.when(passed < 0, 0.0).otherwise(passed / 1e6)
