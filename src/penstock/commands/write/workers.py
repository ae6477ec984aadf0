"""Statements for workers and long polls: claims as raw rows, wake-ups, heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar
from penstock.commands.lease_row import load_claim
from penstock.commands.payload import encode_json
from penstock.sql.loader import load_query

Row: TypeAlias = Sequence[Any]

# The longest queue name that fits into the name of a channel, which has at most 63 bytes.
_WHOLE_NAME: Final = 54
_NOTIFY: Final = "select pg_notify(%(channel)s::text, %(payload)s::text)"
_CLAIM: Final = load_claim("worker/claim")
_CLAIM_WITHIN: Final = load_claim("worker/claim_within")
_LOOK: Final = load_claim("worker/look")
_DEQUEUE: Final = load_claim("worker/dequeue")
_BEAT: Final = call(
    "beat_v2", worker="text", state="text", started_at="timestamptz", report="jsonb"
)
_RETIRE: Final = call("retire", worker="text")
_COMMAND: Final = call("command_worker", worker="text", command="text")
COMMANDS_CHANNEL: Final = "penstock:workers"
"""The channel that gets the name of a worker with a new command."""
WorkerCommand = Literal["quiet", "resume", "stop"]


@dataclass(frozen=True, slots=True)
class Want:
    """The number of messages of a queue that there is room for, and their size."""

    queue: str
    count: int
    lease_seconds: int | None
    max_bytes: int | None = None


class Found(NamedTuple):
    """The result of a look at a queue. `known` is False if the queue does not exist."""

    known: bool
    rows: list[Row]


def wake_channel(queue: str) -> str:
    """The channel on which enqueuers notify the consumers of a queue."""
    short = len(queue) <= _WHOLE_NAME
    return "penstock:" + (
        queue if short else md5(queue.encode(), usedforsecurity=False).hexdigest()
    )


def claim_rows(want: Want, worker: str) -> Command[Rows]:
    """Claim, with undecoded rows. Their columns are those of `lease_row`."""
    params = {
        "queue": want.queue,
        "count": want.count,
        "lease_seconds": want.lease_seconds,
        "worker": worker,
    }
    if want.max_bytes is None or want.count == 1:
        return Command(_CLAIM, params, lambda rows: rows, light=True)
    params["max_bytes"] = want.max_bytes
    return Command(_CLAIM_WITHIN, params, lambda rows: rows, light=True)


def ack_pairs(pairs: Sequence[tuple[int, int]]) -> Command[set[int]]:
    """Ack leases by (id, token). The result has the ids that were settled.

    It is faster than `ack_many`: arrays are sent as text, which takes a tenth of the time that
    psycopg needs for lists, and the answer is one row, which is empty if all were settled.
    """
    ids = [id for id, _ in pairs]
    params = {
        "ids": f"{{{','.join(map(str, ids))}}}",
        "tokens": f"{{{','.join([str(token) for _, token in pairs])}}}",
    }

    def decode(rows: Rows) -> set[int]:
        settled = scalar(rows)
        return set(ids if settled is None else settled)

    return Command(load_query("worker/ack"), params, decode)


def look(wants: Sequence[Want], worker: str) -> Command[dict[str, Found]]:
    """Claim from several queues in one statement."""
    params = {
        "queues": [want.queue for want in wants],
        "counts": [want.count for want in wants],
        "lease_seconds": [want.lease_seconds for want in wants],
        "worker": worker,
    }
    return Command(_LOOK, params, _found, light=True)


@dataclass(frozen=True, slots=True)
class PollWant:
    """The claim of the consumers that wait for one poll."""

    queue: str
    count: int
    lease_seconds: int | None
    worker: str


def dequeue(wants: Sequence[PollWant], max_bytes: int) -> Command[list[Found]]:
    """Claim for several polls in one statement. The rows are those of `claim`.

    All polls together get about `max_bytes`. Each poll that has messages gets at least one.
    """
    params = {
        "max_bytes": max(max_bytes // len(wants), 1),
        "queues": [want.queue for want in wants],
        "counts": [want.count for want in wants],
        "lease_seconds": [want.lease_seconds for want in wants],
        "workers": [want.worker for want in wants],
    }

    def decode(rows: Rows) -> list[Found]:
        found = [Found(False, []) for _ in wants]
        for poll, known, *lease in rows:
            each = found[poll - 1] = Found(known, found[poll - 1].rows)
            if lease[0] is not None:
                each.rows.append(lease)
        return found

    return Command(_DEQUEUE, params, decode, light=True)


def attend(queues: Sequence[str], seconds: int) -> Command[dict[str, float | None]]:
    """Wait for messages of these queues. Returns the seconds until the next scheduled one of each.

    A queue that does not exist is missing from the answer.
    """
    params = {"queues": list(queues), "seconds": check.whole("seconds", seconds)}
    return Command(
        load_query("worker/attend"), params, lambda rows: {row[0]: row[1] for row in rows}
    )


def notify(channel: str, payload: str) -> Command[None]:
    """Send a notification, to test that notifications arrive."""
    return Command(_NOTIFY, {"channel": channel, "payload": payload}, nothing)


def beat(
    worker: str, state: str, started_at: datetime, report: Mapping[str, Any]
) -> Command[str | None]:
    """Report that a worker runs. Returns the operator's command: "quiet", "stop" or None."""
    params = {
        "worker": check.text("worker", worker),
        "state": state,
        "started_at": check.moment("started_at", started_at),
        "report": encode_json(dict(report), "report"),
    }
    return Command(_BEAT, params, scalar)


def retire(worker: str) -> Command[bool]:
    """Report that a worker ended normally."""
    return Command(_RETIRE, {"worker": check.text("worker", worker)}, scalar)


def command_worker(worker: str, command: WorkerCommand) -> Command[None]:
    """Tell a worker to stop claiming, to claim again, or to end.

    Args:
        worker: The name of the worker.
        command: "quiet", "resume" or "stop".
    """
    params = {"worker": check.text("worker", worker), "command": check.text("command", command)}
    return Command(_COMMAND, params, nothing)


def recorded_command(worker: str, command: WorkerCommand, actor: str) -> Command[int]:
    """The same, with a record in the activity log in one transaction. The result is its id."""
    params = {**command_worker(worker, command).params, "actor": check.text("actor", actor)}
    return Command(load_query("operate/command_worker"), params, scalar)


def _found(rows: Rows) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for name, known, *lease in rows:
        each = found.setdefault(name, Found(known, []))
        if lease[0] is not None:
            each.rows.append(lease)
    return found
