"""Renders messages with the field names of the data plane."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET, Raw

from penstock.commands.command import Command, utc
from penstock.commands.lease_row import ATTEMPT, HEADERS, MAX_ATTEMPTS, TIMES
from penstock.commands.write import claim
from penstock.commands.write.leases import within
from penstock.model import message as ours
from penstock.model.lease_columns import LEASE_COLUMNS, places_of
from penstock.model.message import State
from penstock.server.api import documents as d
from penstock.server.fields import Status

STATUS: Final[dict[State, Status]] = {
    "scheduled": "pending",
    "ready": "pending",
    "leased": "processing",
    "done": "deleted",
    "dead": "failed",
    "expired": "expired",
    "cancelled": "deleted",
    "superseded": "deleted",
}
# The states behind each status, among live messages and among finished ones. A dead letter is
# pending, in its `.dlq`; one whose queue has none is failed.
LIVE: Final[dict[Status, list[State]]] = {
    "pending": ["scheduled", "ready", "dead"],
    "processing": ["leased"],
}
FINISHED: Final[dict[Status, list[State]]] = {
    "deleted": ["done", "cancelled", "superseded"],
    "failed": ["dead"],
    "expired": ["expired"],
}
_NO_HEADERS: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
# A row and its document have the same columns. 64-bit integers are strings in JSON.
_NUMBERS: Final = places_of("bigint")
_CONTENTS: Final = places_of("jsonb") + places_of("bytea")
_NAMES: Final = tuple(column.http for column in LEASE_COLUMNS)
_CLAIMED: Final[dict[str, Any]] = {
    "status": "processing",
    "state": "leased",
    "dlq_moved_at": None,
}


def claim_documents(
    queue: str, count: int, lease_seconds: int | None, worker: str, max_bytes: int
) -> Command[list[d.Message]]:
    """Claim without parsing payloads: they stay the text that the database sent.

    It stops at about `max_bytes`.
    """
    command = claim(
        queue,
        count,
        lease_seconds=None if lease_seconds is None else timedelta(seconds=lease_seconds),
        worker=worker,
    )
    documents = Command(
        command.sql,
        command.params,
        lambda rows: [claimed(row, worker) for row in rows],
        light=command.light,
    )
    return within(documents, max_bytes)


def content_bytes(message: d.Message) -> int:
    """The size of a claimed message in an answer, as `penstock.claim_within` counts it."""
    size = len(message.last_error or "")
    if isinstance(message.payload, bytes):
        size += len(message.payload) * 4 // 3
    if isinstance(message.json, Raw):
        size += len(bytes(message.json))
    if isinstance(message.metadata, Raw) and message.metadata is not _NO_HEADERS:
        size += len(bytes(message.metadata))
    return size


def claimed(row: Sequence[Any], worker: str) -> d.Message:
    """A row of `claim` as a document of the data plane."""
    values = list(row)
    for place in _NUMBERS:
        values[place] = str(values[place])
    for place in TIMES:
        values[place] = utc(values[place])
    for place in _CONTENTS:
        if (content := values[place]) is not None:
            values[place] = Raw(content.encode()) if type(content) is str else bytes(content)
        else:
            values[place] = _NO_HEADERS if place == HEADERS else UNSET
    document = dict(zip(_NAMES, values, strict=False))
    dead = document["original_topic"] is not None
    document["retry_count"] = 0 if dead else row[ATTEMPT] - 1
    document["max_retries"] = 0 if dead else row[MAX_ATTEMPTS] - 1
    document["updated_at"] = document["created_at"]
    document["worker"] = worker
    return d.Message(**document, **_CLAIMED)


def document(message: ours.Message, *, with_attempts: bool = False) -> d.Message:
    """The document of a message that was read, with its JSON as text, and not claimed."""
    is_bytes = isinstance(message.payload, bytes)
    dead_letter = message.dead_at is not None and message.finished_at is None
    latest = (message.finished_at, message.dead_at, message.claimed_at, message.enqueued_at)
    return d.Message(
        id=str(message.id),
        topic=message.queue,
        payload=message.payload if is_bytes else UNSET,
        json=UNSET if is_bytes else raw_json(message.payload),
        metadata=raw_json(message.headers),
        key=message.key,
        status=status_of(message),
        state=message.state,
        retry_count=0 if dead_letter else _failed_attempts(message),
        max_retries=0 if dead_letter else _less_one(message.max_attempts),
        last_error=message.last_error,
        visibility_timeout=message.lease_until,
        expires_at=message.expires_at,
        original_topic=message.original_queue,
        dlq_moved_at=message.dead_at if dead_letter else None,
        created_at=message.enqueued_at,
        updated_at=next(at for at in latest if at is not None),
        priority=message.priority,
        group=message.group,
        attempt=message.attempt,
        max_attempts=message.max_attempts,
        visible_at=message.visible_at,
        first_claimed_at=message.first_claimed_at,
        claimed_at=message.claimed_at,
        finished_at=message.finished_at,
        worker=message.worker,
        attempts=[_attempt(each) for each in message.attempts] if with_attempts else UNSET,
    )


def raw_json(text: Any) -> Raw:
    """JSON as the database sent it. There may be none in place of null and of an empty object."""
    if isinstance(text, str):
        return Raw(text.encode())
    return _NULL if text is None else _NO_HEADERS


def status_of(message: ours.Message) -> Status:
    if message.state == "dead" and message.finished_at is None:
        return "pending"
    return STATUS[message.state]


def _failed_attempts(message: ours.Message) -> int:
    """The current attempt and the successful attempt are not failures."""
    return message.attempt - (1 if message.state in ("leased", "done") else 0)


def _less_one(count: int | None) -> int | None:
    return None if count is None else count - 1


def _attempt(attempt: ours.Attempt) -> d.Attempt:
    return d.Attempt(
        attempt=attempt.attempt,
        worker=attempt.worker,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        error=attempt.error,
    )
