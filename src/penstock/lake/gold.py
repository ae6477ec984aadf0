"""Silver -> gold: aggregates by queue and minute, and by day.

A row counts the messages that finished and the attempts that ended in its minute or day (UTC).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.lake import columns
from penstock.lake.histogram import histograms
from penstock.lake.layout import (
    GOLD_ERROR_DAY,
    GOLD_QUEUE_DAY,
    GOLD_QUEUE_MINUTE,
    GOLD_WORKER_MINUTE,
    LakeTable,
)

STATES: Final = ("done", "dead", "expired", "cancelled", "superseded")
QUANTILES: Final = (50, 95, 99)
DURATIONS: Final = ("wait_seconds", "work_seconds", "end_to_end_seconds")
PERCENTILES: Final = tuple(f"{name}_p{quantile}" for name in DURATIONS for quantile in QUANTILES)
_FINISHED: Final = "finished"
_FAILED: Final = "failed"


def events(messages: DataFrame, attempts: DataFrame) -> DataFrame:
    """Both tables of silver as one: the ends of messages, and the failed attempts.

    All of gold is a grouping of this one frame, so no join is needed.
    """
    finished = messages.select(
        *("day", "queue", "worker", "state", "error_kind", "error_fingerprint"),
        sf.lit(_FINISHED).alias("what"),
        sf.col("finished_at").alias("at"),
        sf.col("last_error").alias("error"),
        *("attempts", "wait_seconds", "work_seconds", "end_to_end_seconds"),
        sf.col("payload_bytes_count").cast("bigint").alias("payload_bytes"),
    )
    failed = attempts.select(
        *("day", "queue", "worker", "state", "error_kind", "error_fingerprint"),
        sf.lit(_FAILED).alias("what"),
        sf.col("ended_at").alias("at"),
        *("error", "work_seconds"),
    )
    return finished.unionByName(failed, allowMissingColumns=True).withColumn(
        "minute", sf.date_trunc("minute", "at")
    )


def queue_minute(events: DataFrame) -> DataFrame:
    """Throughput, durations, retries, backlog age and payload sizes of each queue and minute."""
    return _load(events, GOLD_QUEUE_MINUTE, "day", "queue", "minute")


def queue_day(events: DataFrame) -> DataFrame:
    """The same by day, with the percentiles of the day."""
    return _load(events, GOLD_QUEUE_DAY, "day", "queue")


def error_day(events: DataFrame) -> DataFrame:
    """The errors of failed attempts and dead letters, by kind of error.

    A message without a dead letter has its last error in its end.
    """
    died = sf.coalesce(sf.col("state") == "dead", sf.lit(False))
    causes = (
        events.where(sf.col("error").isNotNull() & (died | _is(_FAILED)))
        .groupBy("day", "queue", "error_fingerprint", "error_kind")
        .agg(
            sf.max_by("error", sf.struct("at", "error")).alias("error"),
            sf.count_if(~died).alias("retries"),
            sf.count_if(died).alias("dead"),
            sf.min("at").alias("first_at"),
            sf.max("at").alias("last_at"),
        )
    )
    return causes.select(*columns.names(GOLD_ERROR_DAY))


def worker_minute(events: DataFrame) -> DataFrame:
    """The utilization of each worker. Its time counts in the minute in which the work ended."""
    worked = _failed() | (sf.col("state") == "done")
    load = (
        events.where(sf.col("worker").isNotNull() & worked)
        .groupBy("day", "queue", "worker", "minute")
        .agg(
            sf.count_if(sf.col("state") == "done").alias("finished"),
            sf.count_if(_failed()).alias("failed_attempts"),
            _sum_of_seconds(sf.col("work_seconds")).alias("busy_seconds"),
        )
    )
    return load.select(*columns.names(GOLD_WORKER_MINUTE))


def _load(events: DataFrame, table: LakeTable, *key: str) -> DataFrame:
    """Percentiles are left empty: the driver computes them from the histograms."""
    load = events.groupBy(*key).agg(
        sf.count_if(_is(_FINISHED)).alias("finished"),
        *(sf.count_if(_reached(state)).alias(state) for state in STATES),
        sf.count_if(sf.col("attempts") > 1).alias("retried"),
        sf.count_if(_failed()).alias("failed_attempts"),
        sf.max("wait_seconds").alias("backlog_age_seconds"),
        _sum_of_seconds(sf.when(_is(_FINISHED), sf.col("work_seconds"))).alias("work_seconds"),
        sf.coalesce(sf.sum("payload_bytes"), sf.lit(0)).alias("payload_bytes"),
        sf.max("payload_bytes").alias("payload_bytes_max"),
    )
    empty = dict.fromkeys(PERCENTILES, sf.lit(None).cast("double"))
    durations = histograms(events.where(_is(_FINISHED)), key, DURATIONS)
    return (
        load.join(durations, on=list(key), how="left")
        .withColumns(empty)
        .select(*columns.names(table))
    )


def _is(what: str) -> Column:
    return sf.col("what") == what


def _reached(state: str) -> Column:
    """A dead letter has no end, but an attempt after which the message was dead."""
    reached = sf.col("state") == state
    return reached if state == "dead" else reached & _is(_FINISHED)


def _failed() -> Column:
    """In a queue without dead letters the last attempt has no row, but the dead message has."""
    died = _is(_FINISHED) & (sf.col("state") == "dead") & (sf.col("attempts") > 0)
    return _is(_FAILED) | sf.coalesce(died, sf.lit(False))


def _sum_of_seconds(seconds: Column) -> Column:
    """In whole microseconds, so that the order of additions has no effect."""
    return sf.sum(sf.round(seconds * 1e6).cast("bigint")) / 1e6


KEYS: Final = {
    GOLD_QUEUE_MINUTE: ("queue", "minute"),
    GOLD_QUEUE_DAY: ("queue",),
    GOLD_ERROR_DAY: ("queue", "error_fingerprint"),
    GOLD_WORKER_MINUTE: ("queue", "worker", "minute"),
}
TRANSFORMS: Final = {
    GOLD_QUEUE_MINUTE: queue_minute,
    GOLD_QUEUE_DAY: queue_day,
    GOLD_ERROR_DAY: error_day,
    GOLD_WORKER_MINUTE: worker_minute,
}
