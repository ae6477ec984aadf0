"""Queues, their settings and counts. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delay before the next attempt of a nacked message.

    Attributes:
        kind: How the delay grows with the attempts.
        base_seconds: The first delay.
        max_seconds: The longest delay.
        jitter: The random part of the delay, 0 to 1.
    """

    kind: Literal["exponential", "linear", "constant"] = "exponential"
    base_seconds: float = 1
    max_seconds: float = 3600
    jitter: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue. The database checks the ranges.

    Attributes:
        lease_seconds: The duration of a lease, 1 to 43,200.
        max_attempts: The attempt after which a failed message becomes a dead letter, 1 to 100.
        backoff: The delay before the next attempt.
        dlq_enabled: Whether the queue keeps dead letters.
        message_ttl_seconds: The time after which undelivered messages expire, or None.
        max_depth: The largest number of unfinished messages, or None.
        throughput_limit: The largest number of claims in a second, or None.
        max_in_flight: The largest number of leased messages, or None.
        max_payload_bytes: The largest size of a payload.
        keep_history: The number of days to keep finished messages, 0 to 3,650.
        paused: Whether the queue delivers no messages.
    """

    lease_seconds: int = 30
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    dlq_enabled: bool = True
    message_ttl_seconds: int | None = None
    max_depth: int | None = None
    throughput_limit: int | None = None
    max_in_flight: int | None = None
    max_payload_bytes: int = 262144
    keep_history: int = 7
    paused: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by their SQL names."""
        return asdict(self)


class SettingsChange(TypedDict, total=False):
    """Settings by name for `create_queue` and `set_queue`. None stands for the default."""

    lease_seconds: int | None
    max_attempts: int | None
    backoff: Backoff | Mapping[str, Any] | None
    dlq_enabled: bool | None
    message_ttl_seconds: int | None
    max_depth: int | None
    throughput_limit: int | None
    max_in_flight: int | None
    max_payload_bytes: int | None
    keep_history: int | None
    paused: bool | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its settings.

    Attributes:
        name: The name of the queue.
        settings: The settings.
        created_at: The time at which the queue was created.
        updated_at: The time at which the settings were last changed.
    """

    name: str
    settings: QueueSettings
    created_at: datetime
    updated_at: datetime

    @property
    def paused(self) -> bool:
        """Whether the queue delivers no messages."""
        return self.settings.paused


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The number of messages of a queue, by state.

    Attributes:
        queue: The name of the queue.
        ready: Messages that can be claimed.
        scheduled: Messages that wait for their time.
        leased: Messages that a worker holds.
        dead: Dead letters.
        oldest_ready_seconds: The age of the oldest ready message, or None.
        estimated: Whether the counts are estimates, because the tables are large.
    """

    queue: str
    ready: int
    scheduled: int
    leased: int
    dead: int
    oldest_ready_seconds: float | None
    estimated: bool


@dataclass(frozen=True, slots=True)
class WorkerLeases:
    """The number of leases that a worker holds on a queue."""

    worker: str | None
    queue: str
    leased: int
    oldest_claimed_at: datetime
    next_lease_until: datetime
