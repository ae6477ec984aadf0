"""Create, change, pause, fire and drop schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, get_args

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar, utc
from penstock.commands.payload import encode_headers, encode_json
from penstock.model.schedule import Fired, Missed, ScheduleChange

_CREATE: Final = call(
    "create_schedule",
    name="text",
    queue="text",
    cron="text",
    payload="jsonb",
    settings="jsonb",
    exist_ok="boolean",
)
_SET: Final = call("set_schedule", name="text", settings="jsonb")
_DROP: Final = call("drop_schedule", name="text")
_PAUSE: Final = call("pause_schedule", name="text")
_RESUME: Final = call("resume_schedule", name="text")
_FIRE: Final = call("fire_schedule", name="text")
_FIRE_DUE: Final = call(
    "fire_schedules", "fired, next_fire_at, date_part('epoch', next_fire_at - clock_timestamp())"
)
_NEXT: Final = call(
    "next_fires", cron="text", time_zone="text", count="integer", after="timestamptz"
)


def create_schedule(
    name: str,
    queue: str,
    cron: str,
    payload: Any = None,
    options: Mapping[str, Any] | None = None,
    *,
    exist_ok: bool = False,
) -> Command[bool]:
    """Create a schedule.

    Args:
        name: The name of the schedule.
        queue: The queue of its messages.
        cron: The rule.
        payload: The payload, any JSON value.
        options: The other settings of `Client.create_schedule` by name.
        exist_ok: Whether an existing schedule is accepted. It is not changed.

    Returns:
        A command whose result is True if the schedule was created.
    """
    params = {
        "name": check.text("name", name),
        "queue": check.text("queue", queue),
        "cron": check.text("cron", cron),
        "payload": _payload(payload),
        "settings": _settings(options or {}),
        "exist_ok": check.truth("exist_ok", exist_ok),
    }
    return Command(_CREATE, params, scalar)


def set_schedule(name: str, changes: ScheduleChange) -> Command[None]:
    """Change settings of a schedule.

    Args:
        name: The name of the schedule.
        changes: The settings by name. None resets a setting to its default.
    """
    params = {"name": check.text("name", name), "settings": _settings(changes)}
    return Command(_SET, params, nothing)


def drop_schedule(name: str) -> Command[None]:
    """Drop a schedule. The messages that it enqueued stay.

    See `Client.drop_schedule` for the parameters and the result.
    """
    return Command(_DROP, {"name": check.text("name", name)}, nothing)


def pause_schedule(name: str) -> Command[None]:
    """Stop firing a schedule.

    See `Client.pause_schedule` for the parameters and the result.
    """
    return Command(_PAUSE, {"name": check.text("name", name)}, nothing)


def resume_schedule(name: str) -> Command[None]:
    """Fire a schedule again.

    See `Client.resume_schedule` for the parameters and the result.
    """
    return Command(_RESUME, {"name": check.text("name", name)}, nothing)


def fire_schedule(name: str) -> Command[int]:
    """Enqueue the message of a schedule now. Its next fire does not change.

    See `Client.fire_schedule` for the parameters and the result.
    """
    return Command(_FIRE, {"name": check.text("name", name)}, scalar)


def fire_schedules() -> Command[Fired]:
    """Fire every schedule that is due. Concurrent callers enqueue each fire once.

    Returns:
        A command whose result has the number of messages and the time of the next fire.
    """
    return Command(_FIRE_DUE, {}, _fired)


def next_fires(
    cron: str, time_zone: str = "UTC", count: int = 5, *, after: datetime | None = None
) -> Command[list[datetime]]:
    """Compute the next times at which a rule fires.

    See `Client.next_fires` for the parameters and the result.
    """
    params = {
        "cron": check.text("cron", cron),
        "time_zone": check.text("time_zone", time_zone),
        "count": check.whole("count", count),
        "after": check.moment("after", after),
    }
    return Command(_NEXT, params, _times)


def _fired(rows: Rows) -> Fired:
    count, next_fire_at, next_in_seconds = rows[0]
    return Fired(count, utc(next_fire_at), next_in_seconds)


def _times(rows: Rows) -> list[datetime]:
    return [utc(row[0]) for row in rows]


def _settings(options: Mapping[str, Any]) -> str:
    """The settings with their names in SQL. SQL checks their ranges."""
    if "headers" in options:
        encode_headers(options["headers"])
    if "payload" in options:
        _payload(options["payload"])
    if options.get("missed") is not None:
        check.one_of("missed", options["missed"], get_args(Missed))
    named = {("group_key" if name == "group" else name): v for name, v in options.items()}
    return encode_json(named, "settings")


def _payload(payload: Any) -> str:
    if isinstance(payload, bytes | bytearray | memoryview):
        raise check.refuse("payload", payload, "a JSON value; a schedule has no bytes")
    return encode_json(payload, "payload")
