"""Messages as rows of a list, page by page. Imports no other module of Penstock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

BrowseState: TypeAlias = Literal[
    "ready", "scheduled", "leased", "dead", "finished", "done", "expired", "cancelled", "superseded"
]
"""A state to look through; `finished` is every state that a message can end in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of messages. None matches all. `error` is a part of the last error."""

    key: str | None = None
    error: str | None = None
    worker: str | None = None
    enqueued_before: datetime | None = None
    enqueued_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as a row of a list. `at` is the time of its state: visible at, leased until,
    dead since or finished at.
    """

    id: int
    queue: str
    state: str
    priority: int
    attempt: int
    max_attempts: int | None
    enqueued_at: datetime
    at: datetime
    key: str | None
    group: str | None
    worker: str | None
    last_error: str | None
    preview: str | None
    place: str


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of rows, the number of messages that were scanned, and the start of the next
    page.
    """

    rows: list[MessageRow]
    looked: int
    next: str | None


@dataclass(frozen=True, slots=True)
class SearchPart:
    """One of the tables that a search reads, in its order."""

    part: str
    state: str
    blocks: int
