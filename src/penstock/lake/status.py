"""Where a lake stands: what it holds, what it lacks, what PostgreSQL knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.lake.lake import Lake
from penstock.lake.layout import TABLES
from penstock.lake.ledger import DataFile
from penstock.lake.registry import Registry


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
    """`registered` is False where PostgreSQL does not know the lake: it keeps no history for it."""

    name: str
    path: str
    format: str
    version: int
    landed_rows: int
    pending_rows: int
    tables: list[TableStatus]
    registered: bool
    lag_rows: int | None
    lag_seconds: float | None
    landed_at: datetime | None
    published_at: datetime | None
    verified_at: datetime | None


def status(lake: Lake, registry: Registry) -> LakeStatus:
    state = lake.state()
    rows = registry.call(
        "select lag_rows, lag_seconds, landed_at, published_at, verified_at"
        " from penstock.lakes where name = %s",
        lake.about.name,
    )
    known: tuple[Any, ...] = rows[0] if rows else (None,) * 5
    return LakeStatus(
        lake.about.name,
        lake.storage.root,
        lake.about.format,
        state.version,
        state.landed_rows,
        sum(state.files[path].rows for path in state.pending),
        [_table(table.path, state.of(table)) for table in TABLES.values()],
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
