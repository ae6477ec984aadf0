"""Batches."""

from __future__ import annotations

from typing import Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, utc_row
from penstock.model.batch import BatchProgress
from penstock.sql.loader import load_query

_MEMBERS: Final = call(
    "get_batch_members",
    batch_id="bigint",
    is_dead="boolean",
    after="bigint",
    max_count="integer",
)


def batches(count: int = 100, *, before: int | None = None) -> Command[list[BatchProgress]]:
    """The newest batches, the latest first. `before`: those that are older than this batch."""
    params = {
        "count": check.whole("count", count),
        "before": check.optional_whole("before", before, check.INT8),
    }
    return Command(
        load_query("read/batches"),
        params,
        lambda rows: [BatchProgress(*utc_row(row)) for row in rows],
    )


def batch_members(
    batch_id: int, *, is_dead: bool, after: int = 0, count: int = 100
) -> Command[list[int]]:
    """The ids of members that have not ended, or that are dead letters, after an id."""
    params = {"batch_id": batch_id, "is_dead": is_dead, "after": after, "max_count": count}
    return Command(_MEMBERS, params, lambda rows: [row[0] for row in rows])
