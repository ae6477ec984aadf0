"""Schedules as callers see them. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict

Missed: TypeAlias = Literal["once", "all", "skip"]
"""What becomes of fires that nobody was there for: one message for all, one each, none."""


class ScheduleOptions(TypedDict, total=False):
    """What a schedule may have beyond its queue, rule and payload; None is the default."""

    time_zone: str | None
    headers: Mapping[str, Any] | None
    key: str | None
    priority: int | None
    group: str | None
    ttl_seconds: int | None
    max_attempts: int | None
    missed: Missed | None
    missed_after_seconds: int | None
    paused: bool | None


class ScheduleChange(ScheduleOptions, total=False):
    """Settings by name, for `set_schedule`."""

    queue: str
    cron: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron rule that enqueues by itself, what it enqueues, and when it did and will."""

    name: str
    queue: str
    cron: str
    time_zone: str
    payload: Any = field(hash=False)
    headers: Mapping[str, Any] = field(hash=False)
    key: str | None
    priority: int
    group: str | None
    ttl_seconds: int | None
    max_attempts: int | None
    missed: Missed
    missed_after_seconds: int
    paused: bool
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    last_message_id: int | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Fired:
    """What `fire_schedules` did, and when it is next needed; None if nothing is scheduled.

    `next_in_seconds` is by the clock of the database, which may not be that of this machine.
    """

    count: int
    next_fire_at: datetime | None
    next_in_seconds: float | None
