"""Silver -> gold: what operators and analysts ask, per queue and minute, and per day.

A row speaks of the messages that finished, and the attempts that ended, in its minute or day (UTC).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.lake import columns
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
# percentile_approx is off by no more than 1/10,000 of the ranks.
_ACCURACY: Final = 10_000
_FINISHED: Final = "finished"
_FAILED: Final = "failed"


def events(messages: DataFrame, attempts: DataFrame) -> DataFrame:
    """Both of silver's tables as one: the ends of messages, and the attempts that failed.

    In one frame, so that all of gold is a grouping of it, and nothing has to be joined.
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
    """The same by day; its percentiles are those of the day, not of its minutes."""
    return _load(events, GOLD_QUEUE_DAY, "day", "queue")


def error_day(events: DataFrame) -> DataFrame:
    """Why attempts failed and messages died, by kind of error.

    A message that dies where there are no dead letters has its last error in its end.
    """
    died = sf.coalesce(sf.col("state") == "dead", sf.lit(False))
    causes = (
        events.where(sf.col("error").isNotNull() & (died | _is(_FAILED)))
        .groupBy("day", "queue", "error_fingerprint", "error_kind")
        .agg(
            sf.max_by("error", "at").alias("error"),
            sf.count_if(~died).alias("retries"),
            sf.count_if(died).alias("dead"),
            sf.min("at").alias("first_at"),
            sf.max("at").alias("last_at"),
        )
    )
    return causes.select(*columns.names(GOLD_ERROR_DAY))


def worker_minute(events: DataFrame) -> DataFrame:
    """How busy each worker was: its time is counted in the minute in which the work ended."""
    worked = _is(_FAILED) | (sf.col("state") == "done")
    load = (
        events.where(sf.col("worker").isNotNull() & worked)
        .groupBy("day", "queue", "worker", "minute")
        .agg(
            sf.count_if(_is(_FINISHED)).alias("finished"),
            sf.count_if(_is(_FAILED)).alias("failed_attempts"),
            sf.sum("work_seconds").alias("busy_seconds"),
        )
    )
    return load.select(*columns.names(GOLD_WORKER_MINUTE))


def _load(events: DataFrame, table: LakeTable, *key: str) -> DataFrame:
    load = events.groupBy(*key).agg(
        sf.count_if(_is(_FINISHED)).alias("finished"),
        *(sf.count_if(_reached(state)).alias(state) for state in STATES),
        sf.count_if(sf.col("attempts") > 1).alias("retried"),
        sf.count_if(_is(_FAILED)).alias("failed_attempts"),
        *(_percentiles(name) for name in DURATIONS),
        sf.max("wait_seconds").alias("backlog_age_seconds"),
        sf.sum(sf.when(_is(_FINISHED), sf.col("work_seconds"))).alias("work_seconds"),
        sf.coalesce(sf.sum("payload_bytes"), sf.lit(0)).alias("payload_bytes"),
        sf.max("payload_bytes").alias("payload_bytes_max"),
    )
    places = {
        f"{name}_p{quantile}": sf.col(f"{name}_percentiles")[number]
        for name in DURATIONS
        for number, quantile in enumerate(QUANTILES)
    }
    return load.withColumns(places).select(*columns.names(table))


def _is(what: str) -> Column:
    return sf.col("what") == what


def _reached(state: str) -> Column:
    """A dead letter leaves no end, but an attempt after which the message was dead."""
    reached = sf.col("state") == state
    return reached if state == "dead" else reached & _is(_FINISHED)


def _percentiles(name: str) -> Column:
    """Of the ends alone: an attempt's work is in the load of its worker."""
    quantiles = sf.array(*(sf.lit(quantile / 100) for quantile in QUANTILES))
    of_ends = sf.when(_is(_FINISHED), sf.col(name))
    return sf.percentile_approx(of_ends, quantiles, _ACCURACY).alias(f"{name}_percentiles")


TRANSFORMS: Final = {
    GOLD_QUEUE_MINUTE: queue_minute,
    GOLD_QUEUE_DAY: queue_day,
    GOLD_ERROR_DAY: error_day,
    GOLD_WORKER_MINUTE: worker_minute,
}
