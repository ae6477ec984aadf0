"""The tables that a project declares, as the ledger stores them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError, InvalidValueError, LakeMismatchError
from penstock.lake import columns
from penstock.lake.layout import SILVER, SILVER_QUARANTINE, LakeTable
from penstock.lake.models.model import KIND as MODEL
from penstock.lake.models.model import Model
from penstock.lake.project.own_gold import OwnGold, Transform
from penstock.lake.storage.ledger import Entry

if TYPE_CHECKING:
    from penstock.lake.lake import Lake
    from penstock.lake.project.project import Project


@dataclass(frozen=True, slots=True)
class Declared:
    """The models and the gold tables of the last project."""

    models: tuple[Model, ...] = ()
    gold: tuple[OwnGold, ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Declared:
        models = [Model.from_json(each) for each in found.values() if each["kind"] == MODEL]
        gold = [OwnGold.from_json(each) for each in found.values() if each["kind"] != MODEL]
        return cls(tuple(models), tuple(gold))

    def tables(self) -> dict[str, LakeTable]:
        every = [*(model.table for model in self.models), *(own.table for own in self.gold)]
        return {table.path: table for table in every}

    def typed(self) -> tuple[LakeTable, ...]:
        return tuple(model.table for model in self.models)


def require_transform(lake: Lake, own: OwnGold) -> Transform:
    """The function of a gold table, from the project."""
    found = lake.project.transform(own.name) if lake.project is not None else None
    if found is None:
        raise ConfigurationError(
            f"the lake has a table {own.table.path}, which a project computes",
            hint="Name the project with --project or PENSTOCK_LAKE_PROJECT. "
            f"`penstock lake drop-table {own.table.path}` removes the table.",
        )
    return found


def require_transforms(lake: Lake) -> None:
    """Raises ConfigurationError if the project of a declared gold table is missing."""
    for own in lake.declared().gold:
        require_transform(lake, own)


def declare(lake: Lake, project: Project) -> list[str]:
    """Updates the ledger from the project. Returns the tables that are new or changed.

    Their days become stale, and are recomputed before the next refresh.
    """
    state = lake.ledger.settle()
    before = Declared.of(state.declared)
    models = [_evolved(model, before) for model in project.models()]
    _refuse_shared_tables(models)
    for model in models:
        model.check_rules(lake.spark)
    gold = project.own_gold(lake.spark, models)
    for own in gold:
        _check_columns(own, before)
    new: dict[str, Any] = {}
    every: list[Model | OwnGold] = [*models, *gold]
    for each in every:
        if state.declared.get(each.table.path) != (found := each.as_json()):
            new[each.table.path] = found
    _refuse_missing(before, {each.table.path for each in every})
    changed = set(new)
    if changed & {model.table.path for model in models}:
        changed.add(SILVER_QUARANTINE.path)
    changed |= {own.table.path for own in gold if changed & set(own.reads)}
    changed.discard(SILVER_QUARANTINE.path)
    if new:
        days = sorted({file.day for table in SILVER for file in state.of(table)})
        kept = [day for day in days if day >= state.floors.get("silver", "")]
        stale = dict.fromkeys(sorted(changed), kept) if kept else {}
        lake.ledger.commit(
            Entry(kind="declare", staging=lake.new_staging(), declare=new, stale=stale)
        )
    return sorted(new)


def drop_table(lake: Lake, path: str) -> int:
    """Withdraws a declared table and removes its files. Returns their number."""
    state = lake.ledger.settle()
    known = Declared.of(state.declared)
    table = next((t for t in known.tables().values() if path in (t.path, t.view)), None)
    if table is None:
        raise ConfigurationError(
            f"{path} is not a table of a project",
            hint=f"The lake has these tables of a project: {', '.join(known.tables()) or 'none'}.",
        )
    readers = [own.table.path for own in known.gold if table.path in own.reads]
    if readers:
        raise ConfigurationError(f"{readers[0]} reads {table.path}", hint="Drop that table first.")
    queues = {model.queue for model in known.models if model.table.path == table.path}
    gone = [
        *state.of(table),
        *(file for file in state.of(SILVER_QUARANTINE) if file.queue in queues),
    ]
    # In two steps, because the first is published with the schema that the second withdraws.
    paths = tuple(file.path for file in gone)
    lake.ledger.commit(Entry(kind="withdraw", staging=lake.new_staging(), remove=paths))
    lake.format.drop(table)
    withdrawn = {table.path: None}
    lake.ledger.commit(Entry(kind="withdraw", staging=lake.new_staging(), declare=withdrawn))
    return len(gone)


def _refuse_shared_tables(models: list[Model]) -> None:
    seen: dict[str, str] = {}
    for model in models:
        other = seen.setdefault(model.name, model.queue)
        if other != model.queue:
            raise InvalidValueError(
                f"the models of queues {other} and {model.queue} have the same table {model.name}",
                hint="Give one of them another table.",
                field="table",
                value=model.name,
            )


def _evolved(model: Model, before: Declared) -> Model:
    for old in before.models:
        if old.table.path == model.table.path:
            if old.queue != model.queue:
                raise LakeMismatchError(
                    f"{model.table.path} is the table of queue {old.queue}, not of {model.queue}",
                    hint="Give the model another table.",
                )
            return model.after(old)
    return model


def _check_columns(own: OwnGold, before: Declared) -> None:
    old = next((each for each in before.gold if each.name == own.name), None)
    known = {f.name: f.dataType for f in columns.schema(old.table)} if old else {}
    now = {f.name: f.dataType for f in columns.schema(own.table)}
    for name, kind in known.items():
        if now.get(name) != kind:
            raise LakeMismatchError(
                f"column {name} of {own.table.path} is {kind.simpleString()} in the lake, and the "
                f"function returns {now[name].simpleString() if name in now else 'none'}",
                hint=f"Keep the column, or run `penstock lake drop-table {own.table.path}` first.",
            )


def _refuse_missing(before: Declared, now: Collection[str]) -> None:
    if missing := [path for path in before.tables() if path not in now]:
        raise LakeMismatchError(
            f"the lake has a table {missing[0]}, and the project does not declare it",
            hint=f"`penstock lake drop-table {missing[0]}` removes it.",
        )
