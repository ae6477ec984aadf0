"""The state of a lake: its tables, its lag, and its registration in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.lake.lake import Lake
from penstock.lake.layout import LAYERS
from penstock.lake.registry import Registry
from penstock.lake.storage.ledger import DataFile


@dataclass(frozen=True, slots=True)
class TableStatus:
    table: str
    rows: int
    files: int
    bytes: int
    first_day: str | None
    last_day: str | None


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """`registered` is False if PostgreSQL does not know the lake, and keeps no history for it."""

    name: str
    path: str
    format: str
    version: int
    landed_rows: int
    pending_rows: int
    tables: list[TableStatus]
    # By table of a project, the days that are to be computed because it is new or has changed.
    stale_days: dict[str, int]
    registered: bool
    lag_rows: int | None
    # By layer: the age of the newest data in it, or 0 if it holds all that has finished.
    lag_seconds: dict[str, float] | None
    newest_at: dict[str, datetime | None] | None
    landed_at: datetime | None
    published_at: datetime | None
    verified_at: datetime | None


def status(lake: Lake, registry: Registry) -> LakeStatus:
    state = lake.state()
    rows = registry.call(
        "select lag_rows, bronze_lag_seconds, silver_lag_seconds, gold_lag_seconds,"
        " bronze_newest_at, silver_newest_at, gold_newest_at, landed_at, published_at, verified_at"
        " from penstock.lakes where name = %s",
        lake.about.name,
    )
    known: tuple[Any, ...] = (None,) * 6
    if rows:
        lag_rows, *by_layer = rows[0]
        lags, newest = (dict(zip(LAYERS, by_layer[at : at + 3], strict=True)) for at in (0, 3))
        known = (lag_rows, lags, newest, *by_layer[6:])
    return LakeStatus(
        lake.about.name,
        lake.storage.root,
        lake.about.format,
        state.version,
        state.landed_rows,
        sum(state.files[path].rows for path in state.pending),
        [_table(table.path, state.of(table)) for table in lake.tables()],
        {path: len(days) for path, days in state.stale.items()},
        bool(rows),
        *known,
    )


def _table(name: str, files: list[DataFile]) -> TableStatus:
    days = sorted(file.day for file in files)
    return TableStatus(
        name,
        sum(file.rows for file in files),
        len(files),
        sum(file.bytes for file in files),
        days[0] if days else None,
        days[-1] if days else None,
    )
