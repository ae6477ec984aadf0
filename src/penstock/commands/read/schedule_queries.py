"""Schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc
from penstock.commands.payload import JsonText, decode_json
from penstock.errors import (
    ScheduleNotFoundError,
)
from penstock.model.schedule import Schedule
from penstock.sql.loader import load_query


def schedules(*, as_text: bool = False) -> Command[list[Schedule]]:
    """Every schedule, by name. With `as_text`, their JSON is JsonText."""
    made = _schedule_as_text if as_text else _schedule
    return Command(
        load_query("read/schedules"), {"name": None}, lambda rows: [made(row) for row in rows]
    )


def schedule(name: str, *, as_text: bool = False) -> Command[Schedule]:
    """One schedule. With `as_text`, its JSON is JsonText."""

    def decode(rows: Rows) -> Schedule:
        if not rows:
            raise ScheduleNotFoundError(
                f"schedule {name!r} does not exist",
                hint="Create it with create_schedule.",
                schedule=name,
            )
        return (_schedule_as_text if as_text else _schedule)(rows[0])

    return Command(load_query("read/schedules"), {"name": check.text("name", name)}, decode)


def _schedule_as_text(row: Sequence[Any]) -> Schedule:
    return _schedule(row, lambda text: None if text is None else JsonText(text))


def _schedule(row: Sequence[Any], decode: Callable[[str | None], Any] = decode_json) -> Schedule:
    (name, queue, cron, time_zone, payload, headers, *rest) = row
    (next_fire_at, last_fire_at, id, error, created_at, updated_at) = rest[-6:]
    fields: list[Any] = [name, queue, cron, time_zone]
    fields += [decode(payload), decode(headers) or {}, *rest[:-6]]
    fields += [utc(next_fire_at), utc(last_fire_at), id, error, utc(created_at), utc(updated_at)]
    return Schedule(*fields)
