"""Subscriptions: queues whose messages are sent to HTTP endpoints. Imports no other module."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription, with the counts of its deliveries. `secret` is encrypted."""

    name: str
    queue: str
    url: str
    concurrency: int
    timeout_seconds: int
    enabled: bool
    disabled_reason: str | None
    version: int
    delivered: int
    failed: int
    last_delivered_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    secret: str | None = field(default=None, repr=False)
