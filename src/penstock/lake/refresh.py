"""Bronze -> silver -> gold, for what has landed since: one step of the ledger.

Silver grows by the new rows. Gold is computed anew for the days and queues they belong to, from
all of their silver: so late rows end up in the figures of the day they belong to, and gold always
equals a recount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.lake import columns, gold, silver
from penstock.lake.files import read_rows, write_frame, write_rows
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE_ATTEMPTS,
    BRONZE_HISTORY,
    GOLD,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
    LakeTable,
)
from penstock.lake.ledger import DataFile, Entry, State

# A Spark job over more files than this spends its time on their names.
FILES_AT_ONCE: Final = 2_000
# Gold is put together in the driver's memory: a few days of it at a time.
DAYS_AT_ONCE: Final = 7
Pair = tuple[str, str | None]
Gold = dict[LakeTable, pa.Table]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: the rows that were new to silver, and the rows of gold that changed."""

    rows: int
    files: int
    pairs: frozenset[Pair]
    gold: Gold
    version: int


@dataclass(frozen=True, slots=True)
class _Stage:
    bronze: LakeTable
    silver: LakeTable
    transform: Callable[[DataFrame], DataFrame]
    key: Sequence[str]


_STAGES: Final = (
    _Stage(BRONZE_HISTORY, SILVER_MESSAGES, silver.messages, silver.MESSAGE_KEY),
    _Stage(BRONZE_ATTEMPTS, SILVER_ATTEMPTS, silver.attempts, silver.ATTEMPT_KEY),
)


def refresh(lake: Lake) -> Refreshed | None:
    """Takes in the oldest of what silver lacks; None if it lacks nothing."""
    state = lake.ledger.settle()
    pending = _next_pending(state)
    if not pending:
        return None
    staging = lake.new_staging()
    added = [file for stage in _STAGES for file in _grow(lake, state, stage, pending, staging)]
    # A day whose silver is no longer kept cannot be counted again: its gold stays as it is.
    first = state.floors.get("silver", "")
    pairs = frozenset((file.day, file.queue) for file in pending if file.day >= first)
    rows = sum(file.rows for file in added)
    changed, gilded = _regild(lake, state, pairs, added, staging)
    days = {day for day, _ in pairs}
    replaced = [file.path for table in GOLD for file in state.of(table) if file.day in days]
    committed = lake.ledger.commit(
        Entry(
            kind="refresh",
            staging=staging,
            add=(*added, *gilded),
            remove=tuple(replaced),
            consumed=tuple(file.path for file in pending),
        )
    )
    return Refreshed(rows, len(pending), pairs, changed, committed.version)


def _next_pending(state: State) -> list[DataFile]:
    pending = [file for stage in _STAGES for file in state.pending_of(stage.bronze)]
    days = sorted({file.day for file in pending})[:DAYS_AT_ONCE]
    chosen = [file for file in pending if file.day in days]
    return sorted(chosen, key=lambda file: (file.day, file.path))[:FILES_AT_ONCE]


def _grow(
    lake: Lake, state: State, stage: _Stage, pending: list[DataFile], staging: str
) -> list[DataFile]:
    """The new rows of a silver table, written aside."""
    new = [file for file in pending if file.table == stage.bronze.path]
    if not new:
        return []
    rows = stage.transform(lake.frame(stage.bronze, new))
    if near := _may_hold_the_same(state.of(stage.silver), new):
        rows = silver.unknown(rows, lake.frame(stage.silver, near), stage.key)
    return write_frame(lake, rows, stage.silver, staging)


def _may_hold_the_same(known: list[DataFile], new: list[DataFile]) -> list[DataFile]:
    """The files of the same day and queue whose ids overlap.

    A message lands once; these are few, unless the lake began anew on a restored database.
    """
    ranges: dict[Pair, list[tuple[int, int]]] = {}
    for file in new:
        if file.id_min is not None and file.id_max is not None:
            ranges.setdefault((file.day, file.queue), []).append((file.id_min, file.id_max))

    def overlaps(file: DataFile) -> bool:
        if file.id_min is None or file.id_max is None:
            return (file.day, file.queue) in ranges
        low, high = file.id_min, file.id_max
        return any(
            first <= high and low <= last for first, last in ranges.get((file.day, file.queue), ())
        )

    return [file for file in known if overlaps(file)]


def _regild(
    lake: Lake, state: State, pairs: frozenset[Pair], grown: list[DataFile], staging: str
) -> tuple[Gold, list[DataFile]]:
    """Gold of these days and queues anew, beside what the same days have of other queues.

    Gold is small: it is put together here, not by a job of Spark for each table.
    """
    if not pairs:
        return {}, []
    events = gold.events(
        *(
            _all_of(lake, state, table, pairs, grown, staging)
            for table in (SILVER_MESSAGES, SILVER_ATTEMPTS)
        )
    )
    days = {day for day, _ in pairs}
    changed, files = {}, []
    for table, transform in gold.TRANSFORMS.items():
        changed[table] = transform(events).toArrow().cast(columns.arrow(table))
        before = [file for file in state.of(table) if file.day in days]
        rows = pa.concat_tables([changed[table], _without(read_rows(lake, table, before), pairs)])
        files += write_rows(lake, rows, table, staging)
    return changed, files


def _all_of(
    lake: Lake,
    state: State,
    table: LakeTable,
    pairs: frozenset[Pair],
    grown: list[DataFile],
    staging: str,
) -> DataFrame:
    known = [file for file in state.of(table) if (file.day, file.queue) in pairs]
    new = [file.path for file in grown if file.table == table.path]
    return lake.frame(table, known).unionByName(lake.read(table, new, staging))


def _without(rows: pa.Table, pairs: frozenset[Pair]) -> pa.Table:
    keys = zip(rows["day"].to_pylist(), rows["queue"].to_pylist(), strict=True)
    kept = [(day.isoformat(), queue) not in pairs for day, queue in keys]
    return rows.filter(pa.array(kept, pa.bool_()))
