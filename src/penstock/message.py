"""Messages as callers see them. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

LiveState: TypeAlias = Literal["scheduled", "ready", "leased", "dead"]
FinalState: TypeAlias = Literal["done", "dead", "expired", "cancelled", "superseded"]
State: TypeAlias = Literal[
    "scheduled", "ready", "leased", "done", "dead", "expired", "cancelled", "superseded"
]
# What a nack, reject or snooze leaves the message as.
SettledState: TypeAlias = Literal["ready", "scheduled", "dead", "expired", "superseded"]
OnConflict: TypeAlias = Literal["replace", "skip", "error"]
Unique: TypeAlias = Literal["waiting", "unfinished"]

Duration: TypeAlias = timedelta | int | float
"""A length of time: a timedelta, or a number of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to enqueue, for `enqueue_many`, where each may have options of its own."""

    # Any, as in json.dumps: what JSON can say has no useful static type. Bytes are stored as bytes.
    payload: Any = field(kw_only=False)
    key: str | None = None
    priority: int = 0
    group: str | None = None
    delay: Duration | None = None
    visible_at: datetime | None = None
    ttl: Duration | None = None
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What `enqueue_many` did. With keys, an id may be that of a message that was there already."""

    count: int
    first_id: int | None
    last_id: int | None

    def __add__(self, later: Enqueued) -> Enqueued:
        if not self.count or not later.count:
            return self if self.count else later
        return Enqueued(self.count + later.count, self.first_id, later.last_id)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed message, and the time-limited right to it: `token` is the proof."""

    id: int
    token: int
    queue: str
    # Neither can be hashed; without them leases fit into sets.
    payload: Any = field(hash=False)
    headers: Mapping[str, Any] = field(hash=False)
    key: str | None
    priority: int
    group: str | None
    attempt: int
    max_attempts: int
    enqueued_at: datetime
    lease_until: datetime
    expires_at: datetime | None
    last_error: str | None
    original_queue: str | None


LeaseLike: TypeAlias = Lease | tuple[int, int]
"""A lease, or its (id, token) where the rest was not kept."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that did not end its message."""

    message_id: int
    queue: str
    attempt: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the views show it: waiting, in work, dead, or finished and in history.

    `attempts` is filled by `Client.message`, not in lists.
    """

    id: int
    queue: str
    state: State
    payload: Any = field(hash=False)
    headers: Mapping[str, Any] = field(hash=False)
    key: str | None
    priority: int
    group: str | None
    attempt: int
    max_attempts: int | None
    enqueued_at: datetime
    visible_at: datetime | None
    expires_at: datetime | None
    first_claimed_at: datetime | None
    claimed_at: datetime | None
    lease_until: datetime | None
    finished_at: datetime | None
    dead_at: datetime | None
    worker: str | None
    last_error: str | None
    original_queue: str | None
    attempts: tuple[Attempt, ...] = ()
