"""Question -> Command: the reads of the clients, the CLI and everything above. No I/O.

The questions are in sql/insights, one file each, over the promised views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, get_args

from penstock import arguments as check
from penstock.command import Command, Rows, call, scalar, utc
from penstock.errors import MessageNotFoundError, QueueNotFoundError, ScheduleNotFoundError
from penstock.message import Attempt, FinalState, LiveState, Message, State
from penstock.payload import decode_json, decode_payload
from penstock.queue import Backoff, Queue, QueueSettings, QueueStats, WorkerLeases
from penstock.schedule import Schedule

MAX_LIMIT: Final = 10_000
_STATS: Final = call("stats", queue="text")
_SCHEMA_VERSION: Final = call("schema_version")
_OLDEST_CLIENT: Final = call("oldest_client")


def queues() -> Command[list[Queue]]:
    """Every queue, by name."""
    return Command(_text("queues"), {"name": None}, lambda rows: [_queue(row) for row in rows])


def queue(name: str) -> Command[Queue]:
    """One queue and its settings."""

    def decode(rows: Rows) -> Queue:
        if not rows:
            raise QueueNotFoundError(
                f"queue {name!r} does not exist", hint="Create it with create_queue.", queue=name
            )
        return _queue(rows[0])

    return Command(_text("queues"), {"name": check.text("name", name)}, decode)


def stats(name: str) -> Command[QueueStats]:
    """How many messages a queue holds in each state."""
    params = {"queue": check.text("queue", name)}
    return Command(_STATS, params, lambda rows: QueueStats(*rows[0]))


def message(id: int, *, thorough: bool = True) -> Command[Message]:
    """A message, live or finished, with its attempts.

    One that is ready again after a failed attempt is found by a scan of all that is ready; if not
    `thorough`, then only where that is short.
    """

    def decode(rows: Rows) -> Message:
        if not rows:
            raise MessageNotFoundError(
                f"message {id} is not there",
                hint="It was never committed, or its history is no longer kept.",
                id=id,
            )
        return replace(_message(rows[0]), attempts=_attempts(rows[0][-1]))

    params = {
        "id": check.whole("id", id, check.INT8),
        "thorough": check.truth("thorough", thorough),
    }
    return Command(_text("message"), params, decode)


def messages(
    queue: str | None = None,
    state: State | None = None,
    *,
    key: str | None = None,
    error_like: str | None = None,
    after: int | None = None,
    limit: int = 100,
) -> Command[list[Message]]:
    """A page of messages by id: those that are live, or those that reached a final state.

    Dead letters are live: they can still be claimed and redriven. The next page begins `after`
    the last id of this one.
    """
    finished = state in _FINISHED
    params = {
        "queue": check.optional_text("queue", queue),
        "state": None if state is None else check.one_of("state", state, get_args(State)),
        "key": check.optional_text("key", key),
        "error_like": check.optional_text("error_like", error_like),
        "after": check.optional_whole("after", after, check.INT8),
        "limit": page_size(limit),
    }
    text = _text("history" if finished else "messages")
    return Command(text, params, lambda rows: [_message(row) for row in rows])


_FINISHED: Final = frozenset(get_args(FinalState)) - frozenset(get_args(LiveState))


def page(
    *,
    finished: bool,
    queues: Sequence[str] | None = None,
    states: Sequence[State] | None = None,
    key: str | None = None,
    error: str | None = None,
    enqueued_before: datetime | None = None,
    enqueued_after: datetime | None = None,
    after: int | None = None,
    limit: int = 100,
    internal: bool = False,
) -> Command[list[Message]]:
    """A page of live or of finished messages by id, from several queues, in several states.

    Messages of internal queues are in it only if `internal` is true.
    """
    params = {
        "internal": check.truth("internal", internal),
        "queues": None if queues is None else [check.text("queue", name) for name in queues],
        "states": None if states is None else list(states),
        "key": check.optional_text("key", key),
        "error": check.optional_text("error", error),
        "enqueued_before": check.moment("enqueued_before", enqueued_before),
        "enqueued_after": check.moment("enqueued_after", enqueued_after),
        "after": check.optional_whole("after", after, check.INT8),
        "limit": page_size(limit),
    }
    text = _text("finished_page" if finished else "live_page")
    return Command(text, params, lambda rows: [_message(row) for row in rows])


def queues_of(ids: Sequence[int]) -> Command[dict[int, str]]:
    """id -> queue, of those that are live."""
    params = {"ids": [check.whole("id", id, check.INT8) for id in ids]}
    return Command(_text("queues_of"), params, lambda rows: {row[0]: row[1] for row in rows})


def workers() -> Command[list[WorkerLeases]]:
    """Who holds leases, on which queues."""
    return Command(_text("workers"), {}, lambda rows: [_worker(row) for row in rows])


def schedules() -> Command[list[Schedule]]:
    """Every schedule, by name."""
    return Command(
        _text("schedules"), {"name": None}, lambda rows: [_schedule(row) for row in rows]
    )


def schedule(name: str) -> Command[Schedule]:
    """One schedule."""

    def decode(rows: Rows) -> Schedule:
        if not rows:
            raise ScheduleNotFoundError(
                f"schedule {name!r} does not exist",
                hint="Create it with create_schedule.",
                schedule=name,
            )
        return _schedule(rows[0])

    return Command(_text("schedules"), {"name": check.text("name", name)}, decode)


def schema_version() -> Command[int]:
    """The version of the schema in the database."""
    return Command(_SCHEMA_VERSION, {}, scalar)


def oldest_client() -> Command[int]:
    """The schema version of the oldest clients that work with the database."""
    return Command(_OLDEST_CLIENT, {}, scalar)


@cache
def known_schema_version() -> int:
    """The version of the schema that this package was written for: the number of migrations."""
    folder = files("penstock") / "sql" / "migrations"
    return sum(file.name.endswith(".sql") for file in folder.iterdir())


@cache
def _text(name: str) -> str:
    return files("penstock").joinpath("sql", "insights", f"{name}.sql").read_text("utf-8")


def page_size(limit: int) -> int:
    """The limit, if it is one that a page may have."""
    if not 1 <= check.whole("limit", limit) <= MAX_LIMIT:
        raise check.refuse("limit", limit, f"1 to {MAX_LIMIT}")
    return limit


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


def _schedule(row: Sequence[Any]) -> Schedule:
    (name, queue, cron, time_zone, payload, headers, *rest) = row
    (next_fire_at, last_fire_at, id, error, created_at, updated_at) = rest[-6:]
    fields: list[Any] = [name, queue, cron, time_zone]
    fields += [decode_json(payload), decode_json(headers) or {}, *rest[:-6]]
    fields += [utc(next_fire_at), utc(last_fire_at), id, error, utc(created_at), utc(updated_at)]
    return Schedule(*fields)


def _message(row: Sequence[Any]) -> Message:
    (_, id, queue, state, payload, raw, headers, key, priority, group, *rest) = row[:23]
    (attempt, max_attempts, *times, worker, last_error, original_queue) = rest
    fields: list[Any] = [id, queue, state, decode_payload(payload, raw)]
    fields += [decode_json(headers) or {}, key, priority, group, attempt, max_attempts]
    fields += [*map(utc, times), worker, last_error, original_queue]
    return Message(*fields)


def _attempts(text: str | None) -> tuple[Attempt, ...]:
    return tuple(_attempt(*fields) for fields in decode_json(text) or [])


def _attempt(
    message_id: int,
    queue: str,
    attempt: int,
    worker: str | None,
    started_at: str,
    ended_at: str | None,
    error: str | None,
) -> Attempt:
    # Inside JSON, times are text.
    ended = datetime.fromisoformat(ended_at).astimezone(UTC) if ended_at else None
    started = datetime.fromisoformat(started_at).astimezone(UTC)
    return Attempt(message_id, queue, attempt, worker, started, ended, error)


def _worker(row: Sequence[Any]) -> WorkerLeases:
    (worker, queue, leased, oldest_claimed_at, next_lease_until) = row
    return WorkerLeases(worker, queue, leased, utc(oldest_claimed_at), utc(next_lease_until))
