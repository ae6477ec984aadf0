"""Queues, their settings and how many messages they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, utc
from penstock.commands.payload import decode_json
from penstock.errors import (
    QueueNotFoundError,
)
from penstock.model.queue import Backoff, Queue, QueueSettings, QueueStats
from penstock.sql.loader import load_query

_STATS: Final = call("stats", queue="text")
_ALL_STATS: Final = call("all_stats")
_EXACT_STATS: Final = call("exact_stats")


def queues() -> Command[list[Queue]]:
    """Every queue, by name."""
    return Command(
        load_query("read/queues"), {"name": None}, lambda rows: [_queue(row) for row in rows]
    )


def queue(name: str) -> Command[Queue]:
    """One queue and its settings."""

    def decode(rows: Rows) -> Queue:
        if not rows:
            raise QueueNotFoundError(
                f"queue {name!r} does not exist", hint="Create it with create_queue.", queue=name
            )
        return _queue(rows[0])

    return Command(load_query("read/queues"), {"name": check.text("name", name)}, decode)


def stats(name: str) -> Command[QueueStats]:
    """The number of messages of a queue in each state."""
    params = {"queue": check.text("queue", name)}
    return Command(_STATS, params, lambda rows: QueueStats(*rows[0]))


def all_stats() -> Command[list[QueueStats]]:
    """The number of messages of every queue, by name. Large numbers are estimated."""
    return Command(_ALL_STATS, {}, lambda rows: [QueueStats(*row) for row in rows])


def exact_stats() -> Command[list[QueueStats]]:
    """The number of messages of every queue, by name, counted exactly."""
    return Command(_EXACT_STATS, {}, lambda rows: [QueueStats(*row) for row in rows])


def _queue(row: Sequence[Any]) -> Queue:
    (name, lease_seconds, max_attempts, backoff, *settings, created_at, updated_at) = row
    (dlq, ttl, depth, throughput, in_flight, payload_bytes, history, paused) = settings
    return Queue(
        name,
        QueueSettings(
            lease_seconds=lease_seconds,
            max_attempts=max_attempts,
            backoff=Backoff(**decode_json(backoff)),
            dlq_enabled=dlq,
            message_ttl_seconds=ttl,
            max_depth=depth,
            throughput_limit=throughput,
            max_in_flight=in_flight,
            max_payload_bytes=payload_bytes,
            keep_history=history,
            paused=paused,
        ),
        utc(created_at),
        utc(updated_at),
    )
