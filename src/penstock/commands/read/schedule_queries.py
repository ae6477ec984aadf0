"""Schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc
from penstock.commands.payload import JsonText, decode_json
from penstock.commands.read.paging import page_size
from penstock.errors import (
    ScheduleNotFoundError,
)
from penstock.model.schedule import Schedule
from penstock.sql.loader import load_query


def schedules() -> Command[list[Schedule]]:
    """Every schedule, by name."""
    return Command(
        load_query("read/schedules"), {"name": None}, lambda rows: [_schedule(row) for row in rows]
    )


def schedule_page(
    *,
    queues: Sequence[str] | None = None,
    after: str | None = None,
    limit: int = 1000,
    max_bytes: int = 16 * 2**20,
    as_text: bool = False,
) -> Command[tuple[list[Schedule], bool]]:
    """A page of the schedules by name, of all queues or of some.

    It has about `max_bytes` at most, and one schedule at least. The second value says whether more
    may follow. With `as_text`, their JSON is JsonText.
    """
    made = _schedule_as_text if as_text else _schedule
    params = {
        "queues": None if queues is None else [check.text("queue", name) for name in queues],
        "after": check.optional_text("after", after),
        "limit": page_size(limit),
        "max_bytes": check.whole("max_bytes", max_bytes, check.INT8),
    }

    def decode(rows: Rows) -> tuple[list[Schedule], bool]:
        found = rows[0][-1] if rows else 0
        return [made(row[:-2]) for row in rows], found == limit or len(rows) < found

    return Command(load_query("read/schedule_page"), params, decode)


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
