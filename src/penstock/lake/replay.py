"""Enqueues copies of messages of the lake: by a condition, at a rate, and once for each job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.errors import InvalidValueError
from penstock.lake.lake import Lake
from penstock.lake.layout import SILVER_MESSAGES, SILVER_QUARANTINE
from penstock.lake.registry import Registry
from penstock.spark.error_messages import refusal

ROWS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """The filter of the messages. All given conditions must hold.

    `where` is SQL over silver_messages, or over silver_quarantine for quarantined ones.
    """

    queue: str | None = None
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    where: str | None = None
    max_count: int | None = None
    quarantined: bool = False


def chosen(lake: Lake, choice: Choice) -> DataFrame:
    """The messages, in the order in which they finished."""
    table = SILVER_QUARANTINE if choice.quarantined else SILVER_MESSAGES
    files = lake.state().of(table)
    if choice.queue is not None:
        files = [file for file in files if file.queue == choice.queue]
    rows = lake.frame(table, files)
    if choice.state is not None:
        rows = rows.where(sf.col("state") == choice.state)
    if choice.since is not None:
        rows = rows.where(sf.col("finished_at") >= sf.lit(choice.since))
    if choice.until is not None:
        rows = rows.where(sf.col("finished_at") < sf.lit(choice.until))
    if choice.where is not None:
        rows = matching(rows, choice.where)
    rows = rows.orderBy("finished_at", "id")
    return rows if choice.max_count is None else rows.limit(choice.max_count)


def matching(rows: DataFrame, condition: str) -> DataFrame:
    try:
        return rows.where(condition)
    except (AnalysisException, ParseException) as error:
        raise InvalidValueError(
            f"the condition cannot be used: {refusal(error)}",
            hint=f"Write an SQL condition over the columns {', '.join(rows.columns)}.",
            field="where",
            value=condition,
        ) from error


def replay(
    rows: DataFrame,
    registry: Registry,
    job: str,
    *,
    into: str | None = None,
    per_second: float | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Enqueues the copies that the job has not made yet. Returns their number.

    Each batch is one transaction with a record of the copied messages. After a kill, a run with the
    same name continues the job.
    """
    copies = 0
    for queue, batch in _batches(rows.toLocalIterator(prefetchPartitions=True), into, per_second):
        found = registry.call(_REPLAY, job, queue, *batch)
        copies += len(found)
        progress(len(batch[0]))
    return copies


_REPLAY: Final = (
    "select penstock.replay_landed(%s, %s, %s::bigint[], %s::timestamptz[], %s::jsonb[], "
    "%s::bytea[], %s::jsonb[], %s::text[], %s::integer[], %s::text[], %s::interval[])"
)


def _batches(
    rows: Iterator[Any], into: str | None, per_second: float | None
) -> Iterator[tuple[str, list[list[Any]]]]:
    """Parallel arrays of messages for the same queue."""
    numbered = enumerate(rows)
    for queue, same in groupby(numbered, key=lambda pair: into or pair[1].queue):
        arrays: list[list[Any]] = []
        for number, row in same:
            arrays.append(_values(row, number, per_second))
            if len(arrays) == ROWS_AT_ONCE:
                yield queue, _turned(arrays)
                arrays = []
        if arrays:
            yield queue, _turned(arrays)


def _values(row: Any, number: int, per_second: float | None) -> list[Any]:
    delay = None if per_second is None else timedelta(seconds=number / per_second)
    return [
        row.id,
        row.enqueued_at.astimezone(UTC),
        row.payload,
        None if row.payload_bytes is None else bytes(row.payload_bytes),
        row.headers,
        row.key,
        row.priority,
        row.group_key,
        delay,
    ]


def _turned(rows: list[list[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
