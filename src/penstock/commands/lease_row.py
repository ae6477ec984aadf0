"""The columns of a lease. Every statement that claims returns them in this order. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, make_dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from penstock.commands.command import utc
from penstock.commands.payload import decode_json, decode_payload
from penstock.model.message import Lease
from penstock.sql.loader import load_query


class LeaseRow(NamedTuple):
    """A row as the database returns it: `payload` and `headers` are JSON as text."""

    id: int
    token: int
    queue: str
    payload: str | None
    payload_bytes: bytes | memoryview | None
    headers: str | None
    key: str | None
    priority: int
    group_key: str | None
    attempt: int
    max_attempts: int
    enqueued_at: datetime
    lease_until: datetime
    expires_at: datetime | None
    last_error: str | None
    original_queue: str | None
    # Only from the statements in sql/queries/worker: how long the lease lasts, so that the
    # clock of this machine does not matter, and how long the message has waited, both in seconds.
    remaining: float = 0.0
    waited: float = 0.0


# The place of each column, for code that reads one row for each message: to make a LeaseRow of it
# takes 0.9 us of the 7 that a worker spends on a message.
# fmt: off
(ID, TOKEN, QUEUE, PAYLOAD, PAYLOAD_BYTES, HEADERS, KEY, PRIORITY, GROUP_KEY, ATTEMPT,
 MAX_ATTEMPTS, ENQUEUED_AT, LEASE_UNTIL, EXPIRES_AT, LAST_ERROR, ORIGINAL_QUEUE,
 REMAINING, WAITED) = range(len(LeaseRow._fields))
# fmt: on

_COLUMNS: Final = LeaseRow._fields[:-2]
# What a driver makes of jsonb depends on how its connection was set up.
_AS_TEXT: Final = ("payload", "headers")
# A frozen class sets each of its fields the long way round: half the time it takes to read a lease.
# So they are set here, on an object of the same shape, which then becomes a lease.
_Draft: Final[Any] = make_dataclass("_Draft", [each.name for each in fields(Lease)], slots=True)


def lease_columns(alias: str = "") -> str:
    """The columns as a statement selects them, from the table with this alias."""
    prefix = f"{alias}." if alias else ""
    casts = dict.fromkeys(_AS_TEXT, "::text")
    return ", ".join(f"{prefix}{name}{casts.get(name, '')}" for name in _COLUMNS)


def load_claim(name: str) -> str:
    """A statement that claims, from sql/queries, with the columns for its `{lease}`."""
    return load_query(name).replace("{lease}", lease_columns("l"))


def decode_lease(row: Sequence[Any]) -> Lease:
    # fmt: off
    (id, token, queue, payload, raw, headers, key, priority, group, attempt, max_attempts,
     enqueued_at, until, expires_at, last_error, original_queue) = row
    lease = _Draft(
        id, token, queue, decode_payload(payload, raw), decode_json(headers) or {}, key, priority,
        group, attempt, max_attempts, utc(enqueued_at), utc(until), utc(expires_at), last_error,
        original_queue,
    )
    # fmt: on
    lease.__class__ = Lease
    return lease  # type: ignore[no-any-return]
