"""The request and response bodies of the data plane, field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.server import fields as f


class NewMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message to enqueue, with either `payload` or `json`."""

    topic: f.NewName | UnsetType = UNSET
    payload: f.Payload | UnsetType = UNSET
    json: Raw | UnsetType = UNSET
    metadata: f.Metadata | None = None
    key: f.Key | None = None
    priority: f.Priority = 0
    group: f.Group | None = None
    delay_seconds: f.Delay = 0
    visible_at: f.VisibleAt | None = None
    ttl_seconds: f.Ttl | None = None
    max_retries: f.MaxRetries | None = None


class Enqueue(NewMessage, forbid_unknown_fields=True, kw_only=True):
    """One message, or up to 1,000 `messages`: all are enqueued, or none."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    on_conflict: f.OnConflict = "replace"
    unique: f.Unique = "waiting"


class Enqueued(Struct):
    """The id of the message, or of the waiting message that has the same key."""

    id: str


class EnqueuedMany(Struct):
    """The ids, in the order of the messages."""

    ids: list[str]


class Dequeue(Struct, forbid_unknown_fields=True, kw_only=True):
    """The topic to claim from, the number of messages, the lease, and the time to wait."""

    topic: f.Name
    count: f.Count = 1
    visibility_timeout_seconds: f.LeaseSeconds | None = None
    wait_seconds: f.Wait = 0
    worker: f.Worker | None = None


class Attempt(Struct, kw_only=True):
    """One attempt that did not end its message."""

    attempt: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None


class Message(Struct, gc=False, kw_only=True):
    """A message, with either `payload` (its bytes in base64) or `json` (its JSON value).

    The response of a dequeue has no `first_claimed_at` and no `claimed_at`.
    """

    id: str
    topic: str
    payload: bytes | UnsetType = UNSET
    json: Raw | UnsetType = UNSET
    metadata: Raw | dict[str, Any]
    key: str | None
    status: f.Status
    state: str
    retry_count: int
    max_retries: int | None
    last_error: str | None
    visibility_timeout: datetime | None
    expires_at: datetime | None
    original_topic: str | None
    dlq_moved_at: datetime | None
    created_at: datetime
    updated_at: datetime
    priority: int
    group: str | None
    attempt: int
    max_attempts: int | None
    visible_at: datetime | None = None
    first_claimed_at: datetime | UnsetType | None = UNSET
    claimed_at: datetime | UnsetType | None = UNSET
    finished_at: datetime | None = None
    worker: str | None = None
    lease_token: str | UnsetType = UNSET
    attempts: list[Attempt] | UnsetType = UNSET


class DequeuedMessages(Struct):
    """The claimed messages. The list may be empty."""

    messages: list[Message]


class Page(Struct):
    """A page of a list. `next` is the cursor of the next page."""

    items: list[Message]
    next: str | None


class Find(Struct, forbid_unknown_fields=True, kw_only=True):
    """Filters of the list. Without a status it contains messages of every status."""

    topic: f.Name | None = None
    status: f.Status | None = None
    key: f.Key | None = None
    error: f.Filter | None = None
    older_than_seconds: f.Age | None = None
    younger_than_seconds: f.Age | None = None
    cursor: f.Cursor | None = None
    limit: f.Limit = 100


class Held(Struct, forbid_unknown_fields=True, kw_only=True):
    """The token of a lease."""

    lease_token: f.LeaseToken


class Nack(Held, forbid_unknown_fields=True, kw_only=True):
    """The error, and the delay until the next attempt. The default is the topic's backoff."""

    error: f.ErrorText | None = None
    delay_seconds: f.Delay | None = None


class Reject(Held, forbid_unknown_fields=True, kw_only=True):
    """The reason why further attempts would not help."""

    error: f.ErrorText | None = None


class Snooze(Held, forbid_unknown_fields=True, kw_only=True):
    """The delay until the message is visible again. The attempt does not count."""

    delay_seconds: f.Delay = 0


class Extend(Held, forbid_unknown_fields=True, kw_only=True):
    """The new duration of the lease, from now on. The default is that of the topic."""

    visibility_timeout_seconds: f.LeaseSeconds | None = None


class Settled(Struct, kw_only=True):
    """The new state of a message."""

    id: str
    status: f.Status
    state: str


class Extended(Struct):
    """The new end of a lease."""

    id: str
    visibility_timeout: datetime


class Replay(Struct, forbid_unknown_fields=True):
    """The topic for the copy. The default is the topic of the original."""

    topic: f.NewName | None = None
