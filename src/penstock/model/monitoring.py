"""Metrics of queues, workers and the database. Imports no other module of Penstock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class FinishRate:
    """The number of messages of a queue that reached a state within a number of seconds."""

    queue: str
    state: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """The wait for the first claim and the run time of the last attempt, in seconds, at `QUANTILES`
    of the finished messages of a queue.
    """

    queue: str
    waited: tuple[float, ...]
    worked: tuple[float, ...]


QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One step of the charts of a queue, or of all queues.

    Depths are the highest ones of the step, and None if none was recorded. `waits` and `runs` are
    seconds at `QUANTILES`, to within 9 %, and None if nothing ended in the step.
    """

    at: datetime
    ready: int | None = None
    leased: int | None = None
    scheduled: int | None = None
    dead: int | None = None
    estimated: bool = False
    done: int = 0
    failed: int = 0
    died: int = 0
    waits: list[float] | None = None
    runs: list[float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentOutcomes:
    """What happened in each queue in the last five minutes, counted exactly.

    `done` counts messages and `failed` attempts, over the same time. `is_current` says whether
    everything that ended until two minutes ago is included.
    """

    done: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class DeadError:
    """An error that dead letters of a queue have in common."""

    queue: str
    error: str | None
    count: int
    first_id: int
    last_id: int
    first_dead_at: datetime
    last_dead_at: datetime


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """A message in its handler: its id, and for how long it ran when the worker reported."""

    id: str
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class QueueWork:
    """What a worker does for one queue. Rates and percentiles are of the last five minutes."""

    running: int = 0
    concurrency: int | None = None
    done: int = 0  # since the start of the worker
    failed: int = 0
    done_per_minute: float = 0
    failed_per_minute: float = 0
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    runs: tuple[CurrentRun, ...] = ()  # the longest first


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
    queues: dict[str, QueueWork]
    takes_commands: bool = False
    command: str | None = None  # what an operator wants of it: quiet or stop


NoteState = Literal["acknowledged", "muted"]


@dataclass(frozen=True, slots=True)
class FindingNote:
    """An operator acknowledged or muted a finding, while it is not more severe than `severity`."""

    kind: str
    subject: str
    state: NoteState
    severity: str
    reason: str
    noted_by: str
    noted_at: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True)
class RingSegments:
    """The number of segments of the ring in each state."""

    current: int
    in_use: int
    closing: int
    free: int
    overflow_in_use: bool


@dataclass(frozen=True, slots=True)
class QueueCounter:
    """How often something happened in a queue, since its first count.

    `event` is the state that a message reached, or `failed_attempt`, `expired_lease` or
    `dead_letter`.
    """

    queue: str
    event: str
    count: int


@dataclass(frozen=True, slots=True)
class Announcement:
    """A finding that a destination of notifications was told about, and that is not over.

    `missing_since` is the time from which on it was not found again.
    """

    finding: str
    kind: str
    severity: str
    title: str
    since: datetime
    missing_since: datetime | None = None

    def missing(self, since: datetime | None) -> Announcement:
        """The same, missing since then."""
        return replace(self, missing_since=since)


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """What keeps PostgreSQL from removing old rows: a session, prepared transaction, slot or
    standby.
    """

    kind: str
    pid: int | None
    username: str | None
    application: str | None
    state: str | None
    xids: int
    age_seconds: float | None
    query_start: datetime | None
    name: str | None
    query: str | None = None  # the statement that runs, or ran last
    begun: str | None = None  # distinguishes its transaction from later ones of the session

    @property
    def is_ours(self) -> bool:
        """Whether it is a connection of Penstock: of a client, worker, server or Spark job."""
        return (self.application or "").startswith("penstock")

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.is_ours:
            return "Nothing. It is a connection of Penstock, and its transaction ends by itself."
        if self.kind == "session":
            return f"Let it commit, or end it: select pg_terminate_backend({self.pid});"
        if self.kind == "prepared transaction":
            return f"Finish it: commit prepared '{self.name}'; or rollback prepared '{self.name}';"
        if self.kind == "replication slot" and not self.pid:
            return f"If it is no longer needed: select pg_drop_replication_slot('{self.name}');"
        if self.kind == "replication slot":
            return "Let its consumer catch up."
        return "Look for a long query on the standby, or turn hot_standby_feedback off there."
