"""Queues as callers see them: settings, numbers. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a nacked message waits before its next attempt."""

    kind: Literal["exponential", "linear", "constant"] = "exponential"
    base_seconds: float = 1
    max_seconds: float = 3600
    jitter: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue, with their defaults. The ranges are checked by the database."""

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
        """The settings by the names that SQL gives them."""
        return asdict(self)


class SettingsChange(TypedDict, total=False):
    """Settings by name, for `create_queue` and `set_queue`; None is a setting's default."""

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
    """A queue, its settings, and when they were last changed."""

    name: str
    settings: QueueSettings
    created_at: datetime
    updated_at: datetime

    @property
    def paused(self) -> bool:
        return self.settings.paused


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How many messages a queue holds in each state. `estimated`: too many to count exactly."""

    queue: str
    ready: int
    scheduled: int
    leased: int
    dead: int
    oldest_ready_seconds: float | None
    estimated: bool


@dataclass(frozen=True, slots=True)
class WorkerLeases:
    """Who holds how many leases on a queue."""

    worker: str | None
    queue: str
    leased: int
    oldest_claimed_at: datetime
    next_lease_until: datetime
