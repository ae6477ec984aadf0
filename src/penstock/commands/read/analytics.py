"""Queries of the gold tables that the pipeline publishes. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.commands.command import Command, Rows, call, utc
from penstock.sql.loader import load_query

Queues = list[str] | None


@dataclass(frozen=True, slots=True)
class GoldStep:
    """The messages that ended in a step of time or in a queue, with their durations."""

    of: Any  # the start of the step, or the queue
    done: int
    dead: int
    others: int
    failed_attempts: int
    wait_p50: float | None = None
    wait_p95: float | None = None
    wait_p99: float | None = None
    work_p50: float | None = None
    work_p95: float | None = None
    work_p99: float | None = None
    backlog_age_seconds: float | None = None
    payload_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GoldError:
    """One kind of error."""

    queue: str
    kind: str
    example: str
    retries: int
    dead: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class GoldWorker:
    """The work of a worker."""

    worker: str
    finished: int
    failed_attempts: int
    busy_seconds: float | None
    queues: int


@dataclass(frozen=True, slots=True)
class LakeGlance:
    """A lake, and how far behind each of its layers is.

    The lag of a layer is the age of the newest data in it, or 0 if it holds all that has finished.
    """

    name: str
    landed_at: datetime | None
    published_at: datetime | None
    lag_rows: int
    bronze_newest_at: datetime | None
    silver_newest_at: datetime | None
    gold_newest_at: datetime | None
    bronze_lag_seconds: float
    silver_lag_seconds: float
    gold_lag_seconds: float


def minutes(since: datetime, until: datetime, step: int, queues: Queues) -> Command[list[GoldStep]]:
    """In steps of this many seconds."""
    params = {"since": since, "until": until, "step": step, "queues": queues}
    return Command(_gold("read/gold_minutes"), params, _steps)


def quarters(since: datetime, until: datetime, queues: Queues) -> Command[list[GoldStep]]:
    """In quarters of an hour. The first one is complete, even if it began before `since`."""
    params = {"since": since, "until": until, "queues": queues}
    return Command(_gold("read/gold_quarters", others="others"), params, _steps)


def days(since: datetime, until: datetime, queues: Queues) -> Command[list[GoldStep]]:
    params = {"since": since, "until": until, "queues": queues}
    return Command(_gold("read/gold_days"), params, _steps)


def by_queue(since: datetime, until: datetime, queues: Queues) -> Command[list[GoldStep]]:
    params = {"since": since, "until": until, "queues": queues}
    return Command(_gold("read/gold_queues"), params, _steps)


def _gold(name: str, *, others: str = "(expired + cancelled + superseded)") -> str:
    """A query of gold. `others` is the expression for messages that ended in any other state."""
    sums = load_query("read/gold_sums").replace("{others}", others)
    return load_query(name).replace("{sums}", sums.strip())


def errors(since: datetime, until: datetime, queues: Queues) -> Command[list[GoldError]]:
    def decode(rows: Rows) -> list[GoldError]:
        return [GoldError(q, k, e, r, d, utc(f), utc(la)) for q, k, e, r, d, f, la in rows]

    return Command(
        load_query("read/gold_errors"), {"since": since, "until": until, "queues": queues}, decode
    )


def workers(since: datetime, until: datetime, queues: Queues) -> Command[list[GoldWorker]]:
    params = {"since": since, "until": until, "queues": queues}
    return Command(
        load_query("read/gold_workers"), params, lambda rows: [GoldWorker(*row) for row in rows]
    )


def latest() -> Command[tuple[datetime | None, datetime | None]]:
    """The last minute and the last day in gold, or None if it is empty."""
    return Command(
        load_query("read/gold_latest"), {}, lambda rows: (utc(rows[0][0]), utc(rows[0][1]))
    )


def lakes() -> Command[list[LakeGlance]]:
    """The lakes. The one with the oldest gold comes first."""

    def decode(rows: Rows) -> list[LakeGlance]:
        return [
            LakeGlance(n, utc(at), utc(out), lacks, utc(b), utc(s), utc(g), *lags)
            for n, at, out, lacks, b, s, g, *lags in rows
        ]

    return Command(_LAKES, {}, decode)


_LAKES = call("lake_freshness")


def _steps(rows: Rows) -> list[GoldStep]:
    return [GoldStep(_moment(of), *rest) for of, *rest in rows]


def _moment(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else value
