"""Claim messages, and settle or extend leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar, utc
from penstock.commands.lease_row import decode_lease, lease_columns
from penstock.model.message import Duration, Lease, LeaseLike, SettledState

T = TypeVar("T")
Note: TypeAlias = str | BaseException | None
"""An error as text, or the exception itself."""

_CLAIM: Final = call(
    "claim", lease_columns(), queue="text", count="integer", lease_seconds="integer", worker="text"
)
_CLAIM_WITHIN: Final = call(
    "claim_within",
    lease_columns(),
    queue="text",
    count="integer",
    lease_seconds="integer",
    worker="text",
    max_bytes="bigint",
)
_ACK: Final = call("ack", id="bigint", token="bigint")
_ACK_MANY: Final = call("ack_many", ids="bigint[]", tokens="bigint[]")
_NACK: Final = call("nack", id="bigint", token="bigint", error="text", delay="interval")
_NACK_MANY: Final = call(
    "nack_many", ids="bigint[]", tokens="bigint[]", errors="text[]", delays="interval[]"
)
_REJECT: Final = call("reject", id="bigint", token="bigint", reason="text")
_REJECT_MANY: Final = call("reject_many", ids="bigint[]", tokens="bigint[]", reasons="text[]")
_SNOOZE: Final = call("snooze", id="bigint", token="bigint", delay="interval")
_SNOOZE_MANY: Final = call("snooze_many", ids="bigint[]", tokens="bigint[]", delays="interval[]")
_EXTEND: Final = call("extend", id="bigint", token="bigint", lease_seconds="integer")
_EXTEND_MANY: Final = call(
    "extend_many", ids="bigint[]", tokens="bigint[]", lease_seconds="integer"
)


def claim(
    queue: str,
    count: int = 1,
    *,
    lease_seconds: Duration | None = None,
    worker: str | None = None,
) -> Command[list[Lease]]:
    """Lease up to `count` ready messages. A crash of the server may undo it.

    See `Client.claim` for the parameters and the result.
    """
    params = {
        "queue": check.text("queue", queue),
        "count": check.whole("count", count),
        "lease_seconds": check.whole_seconds("lease_seconds", lease_seconds),
        "worker": check.optional_text("worker", worker),
    }
    return Command(_CLAIM, params, lambda rows: [decode_lease(row) for row in rows], light=True)


def within(claim: Command[T], max_bytes: int) -> Command[T]:
    """Return the same claim limited to about `max_bytes`. It returns at least one message."""
    if claim.params["count"] == 1:
        return claim
    return replace(claim, sql=_CLAIM_WITHIN, params={**claim.params, "max_bytes": max_bytes})


def ack(lease: LeaseLike) -> Command[None]:
    """Settle a message as done.

    See `Client.ack` for the parameters and the result.
    """
    return Command(_ACK, _one(lease), nothing)


def ack_many(leases: Sequence[LeaseLike]) -> Command[set[int]]:
    """Settle many messages as done.

    See `Client.ack_many` for the parameters and the result.
    """
    return Command(_ACK_MANY, _many(leases), lambda rows: {row[0] for row in rows})


def nack(
    lease: LeaseLike, error: Note = None, delay: Duration | None = None
) -> Command[SettledState]:
    """Record that an attempt failed, and deliver the message again later.

    See `Client.nack` for the parameters and the result.
    """
    params = {
        **_one(lease),
        "error": check.note("error", error),
        "delay": check.optional_duration("delay", delay),
    }
    return Command(_NACK, params, scalar)


def nack_many(
    leases: Sequence[LeaseLike],
    error: Note | Sequence[Note] = None,
    delay: Duration | Sequence[Duration | None] | None = None,
) -> Command[dict[int, SettledState]]:
    """Record that many attempts failed.

    See `Client.nack_many` for the parameters and the result.
    """
    params = {
        **_many(leases),
        "errors": _notes("error", error, len(leases)),
        "delays": _durations("delay", delay, len(leases)),
    }
    return Command(_NACK_MANY, params, _states)


def reject(lease: LeaseLike, reason: Note = None) -> Command[SettledState]:
    """Make a message a dead letter now.

    See `Client.reject` for the parameters and the result.
    """
    return Command(_REJECT, {**_one(lease), "reason": check.note("reason", reason)}, scalar)


def reject_many(
    leases: Sequence[LeaseLike], reason: Note | Sequence[Note] = None
) -> Command[dict[int, SettledState]]:
    """Make many messages dead letters now.

    See `Client.reject_many` for the parameters and the result.
    """
    params = {**_many(leases), "reasons": _notes("reason", reason, len(leases))}
    return Command(_REJECT_MANY, params, _states)


def snooze(lease: LeaseLike, delay: Duration = 0) -> Command[SettledState]:
    """Deliver a message again later. The attempt does not count.

    See `Client.snooze` for the parameters and the result.
    """
    return Command(_SNOOZE, {**_one(lease), "delay": check.duration("delay", delay)}, scalar)


def snooze_many(
    leases: Sequence[LeaseLike], delay: Duration | Sequence[Duration] = 0
) -> Command[dict[int, SettledState]]:
    """Deliver many messages again later. The attempts do not count.

    See `Client.snooze_many` for the parameters and the result.
    """
    params = {**_many(leases), "delays": _durations("delay", delay, len(leases))}
    return Command(_SNOOZE_MANY, params, _states)


def extend(lease: LeaseLike, seconds: Duration | None = None) -> Command[datetime]:
    """Extend a lease, counted from now.

    See `Client.extend` for the parameters and the result.
    """
    params = {**_one(lease), "lease_seconds": check.whole_seconds("seconds", seconds)}
    return Command(_EXTEND, params, lambda rows: utc(scalar(rows)))


def extend_many(
    leases: Sequence[LeaseLike], seconds: Duration | None = None
) -> Command[dict[int, datetime]]:
    """Extend many leases, counted from now.

    See `Client.extend_many` for the parameters and the result.
    """
    params = {**_many(leases), "lease_seconds": check.whole_seconds("seconds", seconds)}
    return Command(_EXTEND_MANY, params, lambda rows: {row[0]: utc(row[1]) for row in rows})


def _one(lease: LeaseLike) -> dict[str, Any]:
    id, token = check.lease(lease)
    return {"id": id, "token": token}


def _many(leases: Sequence[LeaseLike]) -> dict[str, Any]:
    pairs = check.leases(leases)
    return {"ids": [id for id, _ in pairs], "tokens": [token for _, token in pairs]}


def _notes(field: str, value: Note | Sequence[Note], count: int) -> list[str | None] | None:
    values = check.each(field, value, count)
    return None if values is None else [check.note(field, each) for each in values]


def _durations(field: str, value: Any, count: int) -> list[timedelta | None] | None:
    values = check.each(field, value, count)
    return None if values is None else [check.optional_duration(field, each) for each in values]


def _states(rows: Rows) -> dict[int, SettledState]:
    return {row[0]: row[1] for row in rows}
