"""Batches."""

from __future__ import annotations

from penstock.commands import arguments as check
from penstock.commands.command import Command, utc_row
from penstock.model.batch import BatchProgress
from penstock.sql.loader import load_query


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
