"""Rates, waiting times, errors and workers. Each query reads a bounded sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, scalar, utc, utc_row
from penstock.commands.payload import decode_json
from penstock.commands.read.worker_reports import queues_of
from penstock.model.monitoring import (
    DeadError,
    FindingNote,
    FinishRate,
    Heartbeat,
    Latencies,
    RingSegments,
)
from penstock.model.queue import WorkerLeases
from penstock.sql.loader import load_query

_OVERDUE: Final = call("overdue", most="integer")
_DEAD_ERRORS: Final = call("dead_errors", queue="text", sample="integer")
SAMPLE: Final = 5_000


def recent(seconds: float = 300, sample: int = SAMPLE) -> Command[list[FinishRate]]:
    """The messages that finished in the last seconds, from a sample of the latest."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        load_query("read/recent"), params, lambda rows: [FinishRate(*row) for row in rows]
    )


def recent_attempts(seconds: float = 300, sample: int = SAMPLE) -> Command[list[FinishRate]]:
    """The attempts that failed in the last seconds, from a sample of the latest."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        load_query("read/recent_attempts"),
        params,
        lambda rows: [
            FinishRate(queue, "failed", count, seconds) for queue, count, seconds in rows
        ],
    )


def expired_leases(seconds: float = 900, sample: int = SAMPLE) -> Command[dict[str, int]]:
    """The leases that expired in each queue in the last seconds, at least.

    They are counted among the latest failed attempts, so there may be more.
    """
    params = {"seconds": seconds, "sample": sample}
    return Command(load_query("read/expired_leases"), params, lambda rows: dict(map(tuple, rows)))


def recent_times(seconds: float = 300, sample: int = SAMPLE) -> Command[list[Latencies]]:
    """Waiting times and durations of the messages that finished in the last seconds."""
    params = {"seconds": seconds, "sample": sample}
    return Command(
        load_query("read/recent_times"),
        params,
        lambda rows: [Latencies(queue, tuple(w), tuple(worked)) for queue, w, worked in rows],
    )


def counters() -> Command[tuple[int, int]]:
    """The last assigned id, and how often a rescan found a message."""
    return Command(load_query("read/counters"), {}, lambda rows: (rows[0][0], rows[0][1]))


def ring() -> Command[RingSegments]:
    """The number of segments of the ring in each state."""
    return Command(load_query("read/ring"), {}, lambda rows: RingSegments(*rows[0]))


def dead_errors(queue: str | None = None, sample: int = SAMPLE) -> Command[list[DeadError]]:
    """The errors of the newest dead letters, of one queue or of all."""
    params = {"queue": check.optional_text("queue", queue), "sample": sample}

    def decode(rows: Rows) -> list[DeadError]:
        return [DeadError(*utc_row(row)) for row in rows]

    return Command(_DEAD_ERRORS, params, decode)


def overdue(most: int = 1000) -> Command[int]:
    """The number of waiting messages whose time to live is over, counted up to `most`."""
    return Command(_OVERDUE, {"most": most}, scalar)


def heartbeats() -> Command[list[Heartbeat]]:
    """The workers that were seen within a day, by name."""

    def decode(rows: Rows) -> list[Heartbeat]:
        return [
            Heartbeat(*utc_row([*row[:9], queues_of(decode_json(row[9])), *row[10:]]))
            for row in rows
        ]

    return Command(load_query("read/heartbeats"), {}, decode)


def finding_notes() -> Command[list[FindingNote]]:
    """The findings that operators acknowledged or muted."""
    return Command(
        load_query("read/finding_notes"),
        {},
        lambda rows: [FindingNote(*utc_row(row)) for row in rows],
    )


def workers() -> Command[list[WorkerLeases]]:
    """The number of leases of each worker and queue."""
    return Command(load_query("read/workers"), {}, lambda rows: [_worker(row) for row in rows])


def _worker(row: Sequence[Any]) -> WorkerLeases:
    (worker, queue, leased, oldest_claimed_at, next_lease_until) = row
    return WorkerLeases(worker, queue, leased, utc(oldest_claimed_at), utc(next_lease_until))
