"""Recomputes silver and gold from bronze, a few days in each step of the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from penstock.errors import InvalidValueError
from penstock.lake import gold, silver
from penstock.lake.damage import require_intact
from penstock.lake.gold_rows import count_gold
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, SILVER, SILVER_ATTEMPTS, SILVER_MESSAGES, LakeTable
from penstock.lake.refresh import DAYS_AT_ONCE, STAGES, Stage
from penstock.lake.storage.data_files import write_frame, write_rows
from penstock.lake.storage.ledger import DataFile, Entry, State


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The tables and days that were recomputed, and the rows they have now."""

    tables: tuple[str, ...]
    days: tuple[str, ...]
    rows: int


def chosen_tables(names: Iterable[str]) -> tuple[LakeTable, ...]:
    """From `silver`, `gold`, or names such as `gold/queue_day`. Gold follows its silver."""
    every = (*SILVER, *GOLD)
    chosen: set[LakeTable] = set()
    for name in names:
        found = {table for table in every if name in (table.layer, table.path, table.view)}
        if not found:
            raise InvalidValueError(
                f"{name} is not a table that can be rebuilt",
                hint=f"Allowed are: silver, gold, {', '.join(table.path for table in every)}.",
                field="table",
                value=name,
            )
        chosen |= found
    if not chosen or chosen & set(SILVER):
        chosen |= set(GOLD) | (set() if chosen else set(SILVER))
    return tuple(table for table in every if table in chosen)


def days_between(
    state: State, since: datetime | None, until: datetime | None
) -> frozenset[str] | None:
    """The days of the lake from one to another; None for all of them."""
    if since is None and until is None:
        return None
    first = since.date().isoformat() if since else ""
    last = until.date().isoformat() if until else "9999-12-31"
    return frozenset(f.day for f in state.files.values() if first <= f.day <= last)


def rebuild(
    lake: Lake,
    tables: Collection[LakeTable] = (*SILVER, *GOLD),
    days: Collection[str] | None = None,
    without: Collection[str] = (),
) -> Rebuilt:
    """Recomputes these tables and days, or all. Files named in `without` are not read."""
    state = lake.ledger.settle()
    every = {file.day for file in state.files.values()}
    chosen = sorted(every if days is None else every & set(days))
    rows = 0
    for start in range(0, len(chosen), DAYS_AT_ONCE):
        rows += _step(lake, tables, frozenset(chosen[start : start + DAYS_AT_ONCE]), set(without))
    return Rebuilt(tuple(table.path for table in tables), tuple(chosen), rows)


def _step(
    lake: Lake, tables: Collection[LakeTable], days: frozenset[str], without: set[str]
) -> int:
    state = lake.ledger.settle()
    staging = lake.new_staging()
    added: list[DataFile] = []
    replaced: list[DataFile] = []
    consumed: list[str] = []
    # A day whose silver is no longer kept cannot be counted again: its gold stays as it is.
    counted = frozenset(day for day in days if day >= state.floors.get("silver", ""))
    require_intact(lake, list(_inputs(state, tables, counted, without)))
    for stage in STAGES:
        if stage.silver in tables:
            rows = whole_silver(lake, state, stage, counted, without)
            added += write_frame(lake, rows, stage.silver, staging)
            replaced += _of(state, stage.silver, counted)
            consumed += [f.path for f in state.pending_of(stage.bronze) if f.day in counted]
    kept = [f for t in SILVER if t not in tables for f in _of(state, t, counted)]
    messages, attempts = (
        lake.frame(table, [f for f in kept if f.table == table.path]).unionByName(
            lake.read(table, [f.path for f in added if f.table == table.path], staging)
        )
        for table in (SILVER_MESSAGES, SILVER_ATTEMPTS)
    )
    counts = count_gold(gold.events(messages, attempts), [t for t in GOLD if t in tables])
    for table, figures in counts.items():
        added += write_rows(lake, figures, table, staging)
        replaced += _of(state, table, counted)
    lake.ledger.commit(
        Entry(
            kind="rebuild",
            staging=staging,
            add=tuple(added),
            remove=tuple(file.path for file in replaced),
            consumed=tuple(consumed),
        )
    )
    return sum(file.rows for file in added)


def whole_silver(
    lake: Lake, state: State, stage: Stage, days: Collection[str], without: Collection[str] = ()
) -> DataFrame:
    """A silver table as bronze says it should be.

    Where bronze is no longer kept whole, rows of silver that bronze lacks stay.
    """
    bronze = [f for f in _of(state, stage.bronze, days) if f.path not in without]
    rows = stage.transform(lake.frame(stage.bronze, bronze))
    first = state.floors.get("bronze", "")
    older = [
        file
        for file in _of(state, stage.silver, days)
        if file.day < first and file.path not in without
    ]
    if not older:
        return rows
    known = lake.frame(stage.silver, older)
    return rows.unionByName(silver.unknown(known, rows, stage.key))


def _inputs(
    state: State, tables: Collection[LakeTable], days: Collection[str], without: Collection[str]
) -> Iterator[DataFile]:
    first = state.floors.get("bronze", "")
    for stage in STAGES:
        rebuilt = stage.silver in tables
        if rebuilt:
            yield from _of(state, stage.bronze, days)
        for file in _of(state, stage.silver, days):
            if file.path not in without and (not rebuilt or file.day < first):
                yield file


def _of(state: State, table: LakeTable, days: Collection[str]) -> list[DataFile]:
    return [file for file in state.of(table) if file.day in days]
