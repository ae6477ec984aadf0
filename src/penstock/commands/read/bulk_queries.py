"""Bulk acts, and purges that can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc_row
from penstock.model.bulk_act import BulkAct
from penstock.sql.loader import load_query


@dataclass(frozen=True, slots=True)
class Purge:
    """A purge that can be undone."""

    queue: str
    count: int
    purged_at: datetime
    undo_until: datetime


def bulk_acts(id: str | None = None) -> Command[list[BulkAct]]:
    """The latest hundred bulk acts, or the one with this id."""

    def decode(rows: Rows) -> list[BulkAct]:
        return [
            BulkAct(row[0], row[1], None if row[2] is None else tuple(row[2]), *utc_row(row[3:]))
            for row in rows
        ]

    return Command(load_query("read/bulk_acts"), {"id": check.optional_text("id", id)}, decode)


def last_purge(queue: str) -> Command[Purge | None]:
    """The latest purge of a queue, or of `<queue>.dlq`, that can be undone."""

    def decode(rows: Rows) -> Purge | None:
        return Purge(*utc_row(rows[0])) if rows else None

    return Command(load_query("read/last_purge"), {"queue": check.text("queue", queue)}, decode)
