"""Recomputes silver and gold from bronze, a few days in each step of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame

from penstock.errors import InvalidValueError
from penstock.lake import gold, silver
from penstock.lake.damage import require_intact
from penstock.lake.declarations import Declared, require_transforms
from penstock.lake.declared_tables import Failures, recompute_declared
from penstock.lake.gold_rows import count_gold
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, SILVER, SILVER_MESSAGES, SILVER_QUARANTINE, LakeTable
from penstock.lake.parts import Observer, Parts, unobserved
from penstock.lake.refresh import DAYS_AT_ONCE, STAGES, Stage
from penstock.lake.step import Step
from penstock.lake.storage.ledger import DataFile, State


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The tables and days that were recomputed, and their number of rows.

    `failures` counts the rows that broke a quality rule or did not fit their model.
    """

    tables: tuple[str, ...]
    days: tuple[str, ...]
    rows: int = 0
    quarantined: int = 0
    failures: Failures = field(default_factory=Counter)
    # The new number of rows of each table.
    written: dict[str, int] = field(default_factory=dict)


def chosen_tables(lake: Lake, names: Iterable[str]) -> tuple[LakeTable, ...]:
    """From `silver`, `gold`, or names such as `gold/queue_day`. Gold follows its silver."""
    every = lake.tables("silver", "gold")
    chosen: set[LakeTable] = set()
    for name in names:
        found = {table for table in every if name in (table.layer, table.path, table.view)}
        if not found:
            raise InvalidValueError(
                f"{name} is not a table that can be rebuilt",
                hint=f"Allowed: silver, gold, {', '.join(table.path for table in every)}.",
                field="table",
                value=name,
            )
        chosen |= found
    if not chosen:
        return tuple(every)
    paths = _with_followers(lake.declared(), {table.path for table in chosen})
    return tuple(table for table in every if table.path in paths)


def _with_followers(declared: Declared, paths: set[str]) -> set[str]:
    """The tables, and those that are computed from them."""
    if paths & {table.path for table in SILVER}:
        paths |= {table.path for table in GOLD}
    if paths & {SILVER_MESSAGES.path, SILVER_QUARANTINE.path}:
        paths |= {table.path for table in declared.typed()}
    if paths & {table.path for table in declared.typed()}:
        paths.add(SILVER_QUARANTINE.path)
    return paths | {own.table.path for own in declared.gold if paths & set(own.reads)}


def days_between(
    state: State, since: datetime | None, until: datetime | None
) -> frozenset[str] | None:
    """The days of the lake in a range, or None for all of them."""
    if since is None and until is None:
        return None
    if since is not None and until is not None and until < since:
        raise InvalidValueError(
            f"the last day, {until.date()}, is before the first day, {since.date()}",
            hint="Give --since the first day and --until the last day.",
            field="until",
            value=until.date().isoformat(),
        )
    first = since.date().isoformat() if since else ""
    last = until.date().isoformat() if until else "9999-12-31"
    return frozenset(f.day for f in state.files.values() if first <= f.day <= last)


def rebuild(
    lake: Lake,
    tables: Collection[LakeTable] | None = None,
    days: Collection[str] | None = None,
    without: Collection[str] = (),
    observer: Observer = unobserved,
) -> Rebuilt:
    """Recomputes these tables and days, or all. Files named in `without` are not read."""
    state = lake.ledger.settle()
    tables = lake.tables("silver", "gold") if tables is None else tables
    every = {file.day for file in state.files.values()}
    chosen = sorted(every if days is None else every & set(days))
    rows = quarantined = 0
    failures: Failures = Counter()
    written: Counter[str] = Counter()
    starts = range(0, len(chosen), DAYS_AT_ONCE)
    parts = Parts(observer, len(starts))
    for start in starts:
        part = chosen[start : start + DAYS_AT_ONCE]
        parts.begin(f"{part[0]} to {part[-1]}")
        step, failed = _step(lake, tables, frozenset(part), set(without))
        rows += sum(file.rows for file in step.added)
        written.update(step.written())
        quarantined += sum(file.rows for file in step.new(SILVER_QUARANTINE))
        failures += failed
    paths = tuple(table.path for table in tables)
    return Rebuilt(paths, tuple(chosen), rows, quarantined, failures, dict(written))


def recompute_stale(lake: Lake) -> Rebuilt | None:
    """Computes the oldest days of declared tables that were not computed yet. None if all were."""
    stale = lake.ledger.settle().stale
    if not stale:
        return None
    days = sorted({day for each in stale.values() for day in each})[:DAYS_AT_ONCE]
    # Tables with the same days, so that no day is computed twice.
    tables = [path for path in stale if set(days) <= set(stale[path])]
    if not tables:
        days = days[:1]
        tables = [path for path in stale if days[0] in stale[path]]
    chosen = [table for path in tables if (table := lake.declared().tables().get(path))]
    return rebuild(lake, chosen, days)


def _step(
    lake: Lake, tables: Collection[LakeTable], days: frozenset[str], without: set[str]
) -> tuple[Step, Failures]:
    step = Step.begin(lake)
    state = step.state
    paths = {table.path for table in tables}
    if any(own.table.path in paths for own in lake.declared().gold):
        require_transforms(lake)
    consumed: list[str] = []
    # A day whose silver was removed cannot be counted again, so its gold stays.
    counted = frozenset(day for day in days if day >= state.floors.get("silver", ""))
    require_intact(lake, list(_inputs(lake, state, tables, counted, without)))
    for stage in STAGES:
        if stage.silver in tables:
            step.write(whole_silver(lake, state, stage, counted, without), stage.silver)
            step.replace(step.old(stage.silver, counted))
            consumed += [f.path for f in state.pending_of(stage.bronze) if f.day in counted]
    if chosen := [table for table in GOLD if table in tables]:
        messages, attempts = (step.rows(table, counted) for table in SILVER)
        for table, figures in count_gold(gold.events(messages, attempts), chosen).items():
            step.write_rows(figures, table)
            step.replace(step.old(table, counted))
    failures = recompute_declared(step, counted, paths)
    # Days before the floor are done with, too.
    step.recomputed = dict.fromkeys(step.recomputed, sorted(days))
    step.commit("rebuild", consumed=tuple(consumed))
    return step, failures


def whole_silver(
    lake: Lake, state: State, stage: Stage, days: Collection[str], without: Collection[str] = ()
) -> DataFrame:
    """A silver table as computed from bronze.

    For days that bronze has lost in part, rows of silver that bronze lacks stay.
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
    lake: Lake,
    state: State,
    tables: Collection[LakeTable],
    days: Collection[str],
    without: Collection[str],
) -> Iterator[DataFile]:
    first = state.floors.get("bronze", "")
    for stage in STAGES:
        rebuilt = stage.silver in tables
        if rebuilt:
            yield from _of(state, stage.bronze, days)
        for file in _of(state, stage.silver, days):
            if file.path not in without and (not rebuilt or file.day < first):
                yield file
    for own in lake.declared().gold:
        if own.table in tables:
            inputs = [table for table in map(lake.table, own.reads) if table not in tables]
            yield from (file for table in inputs for file in _of(state, table, days))


def _of(state: State, table: LakeTable, days: Collection[str]) -> list[DataFile]:
    return [file for file in state.of(table) if file.day in days]
