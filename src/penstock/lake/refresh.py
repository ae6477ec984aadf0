"""Bronze -> silver -> gold, for newly landed rows: one step of the ledger.

Silver gets the new rows, and gold their counts, in the rows of their day. Older rows are not read
again. A recount of all silver gives the same gold, which `verify` checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.lake import gold, silver
from penstock.lake.damage import require_intact
from penstock.lake.declarations import require_transforms
from penstock.lake.declared_tables import Failures, grow_declared
from penstock.lake.gold_rows import Gold, added, count_gold
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE_ATTEMPTS,
    BRONZE_HISTORY,
    GOLD,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
    SILVER_QUARANTINE,
    LakeTable,
)
from penstock.lake.step import Step
from penstock.lake.storage.data_files import read_rows
from penstock.lake.storage.ledger import DataFile, State

# The number of files after which a Spark job takes most of its time for their names.
FILES_AT_ONCE: Final = 2_000
# Gold is computed in the driver's memory, a few days at a time.
DAYS_AT_ONCE: Final = 7
Pair = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of a refresh: the new rows of silver, and the changed rows of gold.

    `failures` counts the rows that broke a quality rule or did not fit their model.
    """

    rows: int
    files: int
    days: frozenset[str]
    gold: Gold
    version: int
    failures: Failures = field(default_factory=Counter)
    quarantined: int = 0
    # The new number of rows of each table.
    written: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """The way from a bronze table to its silver table. `key` identifies a row in both."""

    bronze: LakeTable
    silver: LakeTable
    transform: Callable[[DataFrame], DataFrame]
    key: Sequence[str]


STAGES: Final = (
    Stage(BRONZE_HISTORY, SILVER_MESSAGES, silver.messages, silver.MESSAGE_KEY),
    Stage(BRONZE_ATTEMPTS, SILVER_ATTEMPTS, silver.attempts, silver.ATTEMPT_KEY),
)


def refresh(lake: Lake) -> Refreshed | None:
    """Adds the oldest files that silver lacks. None if it lacks nothing."""
    state = lake.ledger.settle()
    pending = _next_pending(state)
    if not pending:
        return None
    require_transforms(lake)
    require_intact(lake, _inputs(lake, state, pending))
    step = Step.begin(lake)
    for stage in STAGES:
        _grow(step, stage, pending)
    rows = sum(file.rows for file in step.added)
    # A day whose silver was removed cannot be counted again, so its gold stays.
    first = state.floors.get("silver", "")
    days = frozenset(file.day for file in step.added if file.day >= first)
    changed = _count(step, days)
    failures = grow_declared(step, days)
    committed = step.commit("refresh", consumed=tuple(file.path for file in pending))
    quarantined = sum(file.rows for file in step.new(SILVER_QUARANTINE))
    return Refreshed(
        rows, len(pending), days, changed, committed.version, failures, quarantined, step.written()
    )


def _next_pending(state: State) -> list[DataFile]:
    pending = [file for stage in STAGES for file in state.pending_of(stage.bronze)]
    days = sorted({file.day for file in pending})[:DAYS_AT_ONCE]
    chosen = [file for file in pending if file.day in days]
    return sorted(chosen, key=lambda file: (file.day, file.path))[:FILES_AT_ONCE]


def _inputs(lake: Lake, state: State, pending: list[DataFile]) -> list[DataFile]:
    """Everything that a refresh of these files reads."""
    own_gold = lake.declared().gold
    recounted = [path for own in own_gold if not own.grows for path in own.reads]
    read = [*GOLD, *(own.table for own in own_gold), *map(lake.table, recounted)]
    days = {file.day for file in pending}
    near = [
        file
        for stage in STAGES
        for file in _may_hold_the_same(state, stage, _of(pending, stage.bronze))
    ]
    found = [*pending, *near, *(f for table in read for f in state.of(table) if f.day in days)]
    return list({file.path: file for file in found}.values())


def _of(files: Iterable[DataFile], table: LakeTable) -> list[DataFile]:
    return [file for file in files if file.table == table.path]


def _grow(step: Step, stage: Stage, pending: list[DataFile]) -> None:
    """Adds the new rows of a silver table."""
    new = _of(pending, stage.bronze)
    if not new:
        return
    rows = stage.transform(step.lake.frame(stage.bronze, new))
    if near := _may_hold_the_same(step.state, stage, new):
        rows = silver.unknown(rows, step.lake.frame(stage.silver, near), stage.key)
    step.write(rows, stage.silver)


def _may_hold_the_same(state: State, stage: Stage, new: list[DataFile]) -> list[DataFile]:
    """The silver files of the same day and queue whose ids overlap.

    A row lands once, so there are none unless the lake began again or was repaired.
    """
    if state.epoch == 0:
        new = [file for file in new if file.refetched]
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

    return [file for file in state.of(stage.silver) if overlaps(file)]


def _count(step: Step, days: Collection[str]) -> Gold:
    """Adds the new rows of silver to gold, and returns the rows of gold that changed.

    Gold is small, so it is computed here and not by a job of Spark for each table.
    """
    if not days:
        return {}
    messages, attempts = (
        step.new_rows(table, days) for table in (SILVER_MESSAGES, SILVER_ATTEMPTS)
    )
    changed = {}
    for table, new in count_gold(gold.events(messages, attempts), GOLD).items():
        old = step.old(table, days)
        changed[table], same = added(table, read_rows(step.lake, table, old), new)
        step.write_rows(pa.concat_tables([changed[table], same]), table)
        step.replace(old)
    return changed
