"""What pages show: messages by the page, queues at a glance, storage. Imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

Shelf: TypeAlias = Literal[
    "ready", "scheduled", "leased", "dead", "finished", "done", "expired", "cancelled", "superseded"
]
"""A state to look through; `finished` is every state that a message can end in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SightFilter:
    """Which messages to show; None lets all through. `error` is a part of the last error."""

    key: str | None = None
    error: str | None = None
    worker: str | None = None
    enqueued_before: datetime | None = None
    enqueued_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A message as a line of a list. `at` is the time that its state is about: visible, leased
    until, dead since, finished."""

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
class Sightings:
    """A page of them, how many messages were looked at for it, and where the next page begins."""

    rows: list[Sighting]
    looked: int
    next: str | None


@dataclass(frozen=True, slots=True)
class Pace:
    """How many messages of a queue ended in a state lately, within how many seconds."""

    queue: str
    state: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds until the first claim, and in work, at `QUANTILES` of what a queue finished."""

    queue: str
    waited: tuple[float, ...]
    worked: tuple[float, ...]


QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class DeadError:
    """What some dead letters of a queue died of."""

    queue: str
    error: str | None
    count: int
    first_id: int
    last_id: int
    first_dead_at: datetime
    last_dead_at: datetime


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A worker process, as it last reported."""

    worker: str
    state: str
    alive: bool
    started_at: datetime
    seen_at: datetime
    hostname: str | None
    pid: int | None
    version: str | None
    running: int
    queues: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """Who keeps PostgreSQL from cleaning up: a session, prepared transaction, slot or standby."""

    kind: str
    pid: int | None
    username: str | None
    application: str | None
    state: str | None
    xids: int
    age_seconds: float | None
    query_start: datetime | None
    name: str | None

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.kind == "session":
            return f"Let it commit, or end it: select pg_terminate_backend({self.pid});"
        if self.kind == "prepared transaction":
            return f"Finish it: commit prepared '{self.name}'; or rollback prepared '{self.name}';"
        if self.kind == "replication slot" and not self.pid:
            return f"If nobody needs it any more: select pg_drop_replication_slot('{self.name}');"
        if self.kind == "replication slot":
            return "Let its consumer catch up."
        return "Look for a long query on the standby, or turn hot_standby_feedback off there."
