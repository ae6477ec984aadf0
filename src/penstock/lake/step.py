"""A step in progress: its changes, and the tables after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.lake.lake import Lake
from penstock.lake.layout import LakeTable
from penstock.lake.storage.data_files import write_frame, write_rows
from penstock.lake.storage.ledger import DataFile, Entry, State


@dataclass(slots=True)
class Step:
    lake: Lake
    state: State
    staging: str
    added: list[DataFile] = field(default_factory=list)
    replaced: list[DataFile] = field(default_factory=list)
    # The days of declared tables that were computed from all of their rows.
    recomputed: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def begin(cls, lake: Lake) -> Step:
        return cls(lake, lake.ledger.settle(), lake.new_staging())

    def write(self, frame: DataFrame, table: LakeTable) -> list[DataFile]:
        """Adds rows to a table with Spark, at most once for each table in a step."""
        files = write_frame(self.lake, frame, table, self.staging)
        self.added += files
        return files

    def write_rows(self, rows: pa.Table, table: LakeTable) -> None:
        """Adds a few rows with the driver."""
        self.added += write_rows(self.lake, rows, table, self.staging)

    def replace(self, files: Iterable[DataFile]) -> None:
        self.replaced += files

    def old(
        self, table: LakeTable, days: Collection[str], queue: str | None = None
    ) -> list[DataFile]:
        """The previous files of these days."""
        return [f for f in self.state.of(table) if f.day in days and queue in (None, f.queue)]

    def new(self, table: LakeTable, queue: str | None = None) -> list[DataFile]:
        """The files that the step adds."""
        return [f for f in self.added if f.table == table.path and queue in (None, f.queue)]

    def new_rows(self, table: LakeTable, days: Collection[str], queue: str | None = None) -> Any:
        paths = [file.path for file in self.new(table, queue) if file.day in days]
        return self.lake.read(table, paths, self.staging)

    def written(self) -> dict[str, int]:
        """The rows that the step adds to each table."""
        rows: dict[str, int] = {}
        for file in self.added:
            rows[file.table] = rows.get(file.table, 0) + file.rows
        return rows

    def rows(self, table: LakeTable, days: Collection[str], queue: str | None = None) -> DataFrame:
        """The rows of these days after the step."""
        gone = {file.path for file in self.replaced}
        kept = [file for file in self.old(table, days, queue) if file.path not in gone]
        frame = self.lake.frame(table, kept)
        if not any(file.day in days for file in self.new(table, queue)):
            return frame
        return frame.unionByName(self.new_rows(table, days, queue))

    def commit(self, kind: str, **others: Any) -> State:
        return self.lake.ledger.commit(
            Entry(
                kind=kind,
                staging=self.staging,
                add=tuple(self.added),
                remove=tuple(file.path for file in self.replaced),
                recomputed=self.recomputed,
                **others,
            )
        )
