"""Results of tasks, stored with the ack and read by waiting callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, scalar
from penstock.commands.payload import encode_json
from penstock.sql.loader import load_query

RESULTS_CHANNEL: Final = "penstock:results"
"""The channel that gets the ids of messages with new results."""

IDS_IN_NOTIFICATION: Final = 375
"""A notification carries less than 8,000 bytes, and an id has up to 20."""

_GET_RESULTS: Final = call("get_results", "id, state, value::text, error", ids="bigint[]")
_GET_RESULT_QUEUE: Final = call("get_result_queue", id="bigint")
_GET_OUTCOME: Final = call("get_outcome", "state, value::text, error", id="bigint")
_DROP_EXPIRED: Final = call("drop_expired_results")


class TaskOutcome(NamedTuple):
    """The end of a call. `value` is the JSON text of its result, or None if none is kept."""

    state: str
    value: str | None
    error: str | None = None

    @property
    def next_id(self) -> int | None:
        """The message of the next step, for a step of a chain that is done."""
        return int(self.value) if self.state == "continued" and self.value is not None else None


class Completion(NamedTuple):
    """A finished message, with the result to store and the messages to enqueue with its ack."""

    queue: str
    id: int
    token: int
    value: str | None
    keep_seconds: int | None
    enqueues: Sequence[Mapping[str, Any]] = ()


def complete_many(completions: Sequence[Completion]) -> Command[set[int]]:
    """Ack, store results and enqueue in one transaction. Returns the ids that were settled."""
    enqueues = [{**message, "after": each.id} for each in completions for message in each.enqueues]
    params = {
        "ids": _array([each.id for each in completions]),
        "tokens": _array([each.token for each in completions]),
        "results": _texts([each.value for each in completions]),
        "keep_seconds": _array([each.keep_seconds for each in completions]),
        "enqueues": encode_json(enqueues, "messages") if enqueues else None,
        "queues": _texts([each.queue for each in completions]),
    }

    def decode(rows: Rows) -> set[int]:
        settled = scalar(rows)
        return {each.id for each in completions} if settled is None else set(settled)

    return Command(load_query("worker/complete"), params, decode)


def get_results(ids: Sequence[int]) -> Command[dict[int, TaskOutcome]]:
    """Stored results and dead letters, by the ids of their messages."""

    def decode(rows: Rows) -> dict[int, TaskOutcome]:
        return {id: TaskOutcome(state, value, error) for id, state, value, error in rows}

    return Command(_GET_RESULTS, {"ids": _array(ids)}, decode)


def _array(numbers: Sequence[int | None]) -> str:
    """As text, which takes a tenth of the time that psycopg needs for a list: see `ack_pairs`."""
    return f"{{{','.join(['NULL' if each is None else str(each) for each in numbers])}}}"


def _texts(values: Sequence[str | None]) -> str:
    """The same for texts."""
    return f"{{{','.join(['NULL' if each is None else _quoted(each) for each in values])}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def get_outcome(id: int) -> Command[TaskOutcome | None]:
    """The end of a message, in any state. None if there is no trace of it."""
    params = {"id": check.whole("id", id, check.INT8)}
    return Command(_GET_OUTCOME, params, lambda rows: TaskOutcome(*rows[0]) if rows else None)


def get_result_queue(id: int) -> Command[str | None]:
    """The queue of the message of a kept result, or None."""
    return Command(_GET_RESULT_QUEUE, {"id": check.whole("id", id, check.INT8)}, scalar)


def drop_expired_results() -> Command[int]:
    """Delete up to 1,000 expired results. The result is their number."""
    return Command(_DROP_EXPIRED, {}, scalar)
