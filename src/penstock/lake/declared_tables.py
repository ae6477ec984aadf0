"""The part of a step that a project declares: typed tables, quarantine, and its own gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from functools import reduce

from pyspark.sql import DataFrame

from penstock.errors import LakeError
from penstock.lake import columns
from penstock.lake.declarations import require_transform
from penstock.lake.layout import SILVER_MESSAGES, SILVER_QUARANTINE, LakeTable
from penstock.lake.models.model import Model
from penstock.lake.models.typing_step import Typed, typed
from penstock.lake.project.own_gold import OwnGold
from penstock.lake.step import Step

# The number of rows that broke each rule, by queue.
Failures = Counter[tuple[str, str]]


def grow_declared(step: Step, days: Collection[str]) -> Failures:
    """Adds the new rows of silver to the tables that a project declares.

    Stale days are left out, because they are recomputed from all of their rows.
    """
    declared, stale = step.lake.declared(), step.state.stale
    frames = []
    for model in declared.models:
        fresh = set(days) - set(stale.get(model.table.path, ()))
        if any(file.day in fresh for file in step.new(SILVER_MESSAGES, model.queue)):
            rows = step.new_rows(SILVER_MESSAGES, fresh, model.queue)
            frames.append((model, rows))
    failures = _type(step, frames)
    for own in declared.gold:
        tables = [step.lake.table(path) for path in own.reads]
        touched = {file.day for table in tables for file in step.new(table)}
        fresh = touched & set(days) - set(stale.get(own.table.path, ()))
        if fresh and own.grows:
            _grow_gold(step, own, tables[0], fresh)
        elif fresh:
            _recompute_gold(step, own, fresh)
    return failures


def recompute_declared(
    step: Step, days: Collection[str], tables: Collection[str] | None = None
) -> Failures:
    """Computes these tables, or all, from all rows of silver of these days after the step."""
    declared = step.lake.declared()
    frames = []
    for model in declared.models:
        if tables is None or model.table.path in tables:
            step.replace(step.old(model.table, days))
            step.replace(step.old(SILVER_QUARANTINE, days, model.queue))
            step.recomputed[model.table.path] = sorted(days)
            frames.append((model, step.rows(SILVER_MESSAGES, days, model.queue)))
    failures = _type(step, frames)
    recompute_own_gold(step, days, tables)
    return failures


def recompute_own_gold(
    step: Step, days: Collection[str], tables: Collection[str] | None = None
) -> None:
    for own in step.lake.declared().gold:
        if tables is None or own.table.path in tables:
            _recompute_gold(step, own, days)


def _type(step: Step, frames: list[tuple[Model, DataFrame]]) -> Failures:
    failures: Failures = Counter()
    with ExitStack() as stack:
        found = [stack.enter_context(typed(rows, model)) for model, rows in frames]
        for each in found:
            step.write(each.rows, each.model.table)
            failures.update({(each.model.queue, rule): n for rule, n in each.failed.items() if n})
        _quarantine(step, found)
    return failures


def _quarantine(step: Step, found: list[Typed]) -> None:
    """One write for all models: they share the table."""
    frames = [each.quarantined for each in found]
    if frames:
        step.write(reduce(DataFrame.unionByName, frames), SILVER_QUARANTINE)


def _grow_gold(step: Step, own: OwnGold, table: LakeTable, days: Collection[str]) -> None:
    rows = gold_rows(step, own, [step.new_rows(table, days)])
    if own.combine:
        before = step.old(own.table, days)
        rows = own.combined(rows.unionByName(step.lake.frame(own.table, before)))
        step.replace(before)
    _write_gold(step, own, rows, days)


def _recompute_gold(step: Step, own: OwnGold, days: Collection[str]) -> None:
    inputs = [step.rows(step.lake.table(path), days) for path in own.reads]
    step.replace(step.old(own.table, days))
    step.recomputed[own.table.path] = sorted(days)
    _write_gold(step, own, gold_rows(step, own, inputs), days)


def gold_rows(step: Step, own: OwnGold, inputs: list[DataFrame]) -> DataFrame:
    """The result of the project's function, with the columns of the table."""
    result = require_transform(step.lake, own)(*inputs)
    return own.combined(result.select(*columns.names(own.table)))


def _write_gold(step: Step, own: OwnGold, rows: DataFrame, days: Collection[str]) -> None:
    files = step.write(rows.repartition("day"), own.table)
    if strange := sorted({file.day for file in files} - set(days)):
        raise LakeError(
            f"the function of {own.table.path} returned rows of the day {strange[0]}, "
            f"which none of its input rows has",
            hint="Nothing was changed. Its result must keep the column day of its input.",
        )
