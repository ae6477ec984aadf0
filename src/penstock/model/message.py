"""Messages as callers see them. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

LiveState: TypeAlias = Literal["scheduled", "ready", "leased", "dead"]
FinalState: TypeAlias = Literal["done", "dead", "expired", "cancelled", "superseded"]
State: TypeAlias = Literal[
    "scheduled", "ready", "leased", "done", "dead", "expired", "cancelled", "superseded"
]
# The state of a message after a nack, reject or snooze.
SettledState: TypeAlias = Literal["ready", "scheduled", "dead", "expired", "superseded"]
OnConflict: TypeAlias = Literal["replace", "skip", "error"]
Unique: TypeAlias = Literal["waiting", "unfinished"]

Duration: TypeAlias = timedelta | int | float
"""A length of time: a timedelta, or a number of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message for `enqueue_many`, with its own options.

    Attributes:
        payload: Any JSON value, or `bytes`.
        key: At most one waiting message of a queue has a given key.
        priority: -9 to 9. Higher priorities are delivered first.
        group: Messages of one group are delivered in order, one at a time.
        delay: The time until the message can be claimed: a timedelta or seconds.
        visible_at: The time from which the message can be claimed.
        ttl: The time after which the message expires if it has not been delivered.
        headers: A dict of JSON values.
        max_attempts: Overrides the setting of the queue.
    """

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


class MessageOptions(TypedDict, total=False):
    """The options of `NewMessage` by name, for functions that take them as keyword arguments."""

    key: str | None
    priority: int
    group: str | None
    delay: Duration | None
    visible_at: datetime | None
    ttl: Duration | None
    headers: Mapping[str, Any] | None
    max_attempts: int | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The result of `enqueue_many`. With keys, an id may be that of an existing message.

    Attributes:
        count: The number of messages.
        first_id: The id of the first message, or None.
        last_id: The id of the last message, or None.
    """

    count: int
    first_id: int | None
    last_id: int | None

    def __add__(self, later: Enqueued) -> Enqueued:
        if not self.count or not later.count:
            return self if self.count else later
        return Enqueued(self.count + later.count, self.first_id, later.last_id)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed message, and the time-limited right to settle it.

    Attributes:
        id: The id of the message.
        token: The proof of the lease. Every claim has another token.
        queue: The name of the queue.
        payload: The JSON value or bytes that were enqueued.
        headers: The headers that were enqueued.
        key: The key, or None.
        priority: -9 to 9.
        group: The group, or None.
        attempt: The number of this attempt, counted from 1.
        max_attempts: The attempt after which a failed message becomes a dead letter.
        enqueued_at: The time of the enqueue.
        lease_until: The time at which the lease expires.
        expires_at: The time at which the message expires, or None.
        last_error: The error of the previous attempt, or None.
        original_queue: The queue that a dead letter came from, or None.
    """

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
"""A lease, or its (id, token)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that did not finish its message."""

    message_id: int
    queue: str
    attempt: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the views show it, waiting, leased, dead or in history.

    Attributes:
        id: The id of the message.
        queue: The name of the queue.
        state: The state, such as "ready", "leased", "dead" or "done".
        payload: The JSON value or bytes that were enqueued.
        headers: The headers that were enqueued.
        key: The key, or None.
        priority: -9 to 9.
        group: The group, or None.
        attempt: The number of attempts so far.
        max_attempts: The attempt after which a failed message becomes a dead letter.
        enqueued_at: The time of the enqueue.
        visible_at: The time from which a scheduled message can be claimed.
        expires_at: The time at which the message expires, or None.
        first_claimed_at: The time of the first claim, or None.
        claimed_at: The time of the latest claim, or None.
        lease_until: The time at which the lease expires, or None.
        finished_at: The time at which the message was finished, or None.
        dead_at: The time at which the message became a dead letter, or None.
        worker: The name of the latest holder, or None.
        last_error: The error of the latest failed attempt, or None.
        original_queue: The queue that a dead letter came from, or None.
        attempts: The failed attempts. Only `Client.message` reads them.
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
