"""What the data plane takes and answers, field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.server import fields as f


class NewMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message to enqueue: with `payload` or with `json`, one of them."""

    topic: f.NewName | UnsetType = UNSET
    payload: f.Payload | UnsetType = UNSET
    json: Raw | UnsetType = UNSET
    metadata: f.Metadata | None = None
    key: f.Key | None = None
    priority: f.Priority = 0
    group: f.Group | None = None
    delay_seconds: f.Delay = 0
    ttl_seconds: f.Ttl | None = None
    max_retries: f.MaxRetries | None = None


class Enqueue(NewMessage, forbid_unknown_fields=True, kw_only=True):
    """One message, or up to 1,000 `messages`, all or none; their topic is `topic` or their own."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    on_conflict: f.OnConflict = "replace"
    unique: f.Unique = "waiting"


class Enqueued(Struct):
    """The id of the message; with a key, perhaps of the one that had it already."""

    id: str


class EnqueuedMany(Struct):
    """The ids, in the order of the messages."""

    ids: list[str]


class Dequeue(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which messages to claim, how many, for how long, and how long to wait for one."""

    topic: f.Name
    count: f.Count = 1
    visibility_timeout_seconds: f.LeaseSeconds | None = None
    wait_seconds: f.Wait = 0
    worker: f.Worker | None = None


class Attempt(Struct, kw_only=True):
    """One try that did not end its message."""

    attempt: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None


class Message(Struct, gc=False, kw_only=True):
    """A message. `payload` is base64 of its bytes, `json` its JSON value: it has one of them.

    A dequeue leaves `first_claimed_at` and `claimed_at` out: a claim does not report them.
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


class Messages(Struct):
    """What was claimed; none is no error."""

    messages: list[Message]


class Page(Struct):
    """A page of a list; `next` is the cursor of the next one."""

    items: list[Message]
    next: str | None


class Find(Struct, forbid_unknown_fields=True, kw_only=True):
    """Filters of the list of messages; without a status it has those that are not finished."""

    topic: f.Name | None = None
    status: f.Status | None = None
    key: f.Key | None = None
    error: f.Filter | None = None
    older_than_seconds: f.Age | None = None
    younger_than_seconds: f.Age | None = None
    cursor: f.Id | None = None
    limit: f.Limit = 100


class Held(Struct, forbid_unknown_fields=True, kw_only=True):
    """The proof of a lease."""

    lease_token: f.LeaseToken


class Nack(Held, forbid_unknown_fields=True, kw_only=True):
    """What went wrong, and when to try again; without a delay the topic's backoff decides."""

    error: f.ErrorText | None = None
    delay_seconds: f.Delay | None = None


class Reject(Held, forbid_unknown_fields=True, kw_only=True):
    """Why no further attempt would help."""

    error: f.ErrorText | None = None


class Snooze(Held, forbid_unknown_fields=True, kw_only=True):
    """Until when to put it back, without counting the attempt."""

    delay_seconds: f.Delay = 0


class Extend(Held, forbid_unknown_fields=True, kw_only=True):
    """How long to hold it from now on; without seconds, as the topic says."""

    visibility_timeout_seconds: f.LeaseSeconds | None = None


class Settled(Struct, kw_only=True):
    """What became of a message."""

    id: str
    status: f.Status
    state: str


class Extended(Struct):
    """Until when it is held."""

    id: str
    visibility_timeout: datetime


class Replay(Struct, forbid_unknown_fields=True):
    """Where the copy goes; without a topic, where the original was."""

    topic: f.NewName | None = None
