"""Schedules as callers see them. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict

Missed: TypeAlias = Literal["once", "all", "skip"]
"""What happens to missed fires: one message for all of them, one for each, or none."""


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule besides queue, rule and payload. None stands for the default."""

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
    """A cron rule, the message that it enqueues, and the times of its fires.

    Attributes:
        name: The name of the schedule.
        queue: The queue for the messages.
        cron: The rule.
        time_zone: The time zone of the rule, a name of the tz database.
        payload: The payload of the messages.
        headers: The headers of the messages.
        key: The key of the messages, or None.
        priority: The priority of the messages.
        group: The group of the messages, or None.
        ttl_seconds: The time to live of the messages, or None.
        max_attempts: Overrides the setting of the queue, or None.
        missed: What happens to missed fires: "once" enqueues one message for all of them, "all" one
            for each, "skip" none.
        missed_after_seconds: The delay after which a fire counts as missed.
        paused: Whether the schedule does not fire.
        next_fire_at: The time of the next fire, or None.
        last_fire_at: The time of the last fire, or None.
        last_message_id: The id of the last message, or None.
        last_error: The error of the last fire, or None.
        created_at: The time at which the schedule was created.
        updated_at: The time at which the settings were last changed.
    """

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
    """The result of `fire_schedules`.

    Attributes:
        count: The number of messages that were enqueued.
        next_fire_at: The time of the next fire, or None if no schedule is active.
        next_in_seconds: The seconds until then, by the clock of the database.
    """

    count: int
    next_fire_at: datetime | None
    next_in_seconds: float | None
