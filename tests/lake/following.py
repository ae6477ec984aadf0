"""Drives the readers as Spark does, without a JVM: offsets through JSON, readers through pickle."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.spark.source import PenstockSource

Row = dict[str, Any]


def batch(**options: str) -> list[Row]:
    """All rows of a batch."""
    source = PenstockSource(options)
    reader = source.reader(source.schema())
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    return rows_of([each for part in parts for each in _again(reader).read(part)])


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


class Stream:
    """A query with its checkpoint: what was planned, and what was committed."""

    def __init__(self, **options: str) -> None:
        self.options = options
        self.reader = self._new_reader()
        self.committed: dict[str, Any] = self.reader.initialOffset()
        self.planned: dict[str, Any] | None = None

    def _new_reader(self) -> DataSourceStreamReader:
        source = PenstockSource(self.options)
        return source.streamReader(source.schema())

    def restart(self) -> None:
        """As after a kill: nothing is left but the checkpoint."""
        self.reader.stop()
        self.reader = self._new_reader()

    def plan(self) -> bool:
        """Writes the next offset into the offset log; whether there is one."""
        if self.planned is None:
            limit = self.reader.getDefaultReadLimit()
            end = json.loads(json.dumps(self.reader.latestOffset(self.committed, limit)))
            self.planned = end if end != self.committed else None
        return self.planned is not None

    def partitions(self) -> list[Any]:
        assert self.planned is not None
        parts = self.reader.partitions(self.committed, self.planned)
        return [pickle.loads(pickle.dumps(part)) for part in parts]

    def read(self) -> list[Row]:
        """What the tasks of the planned batch read, each on a copy of the reader."""
        parts = self.partitions()
        return rows_of([each for part in parts for each in _again(self.reader).read(part)])

    def commit(self) -> None:
        assert self.planned is not None
        self.committed, self.planned = self.planned, None

    def close(self) -> None:
        self.reader.stop()

    def next(self) -> list[Row]:
        """One micro-batch; nothing, if there is nothing new."""
        if not self.plan():
            return []
        rows = self.read()
        self.commit()
        return rows

    def rest(self) -> list[Row]:
        """Micro-batches until there is nothing new."""
        rows: list[Row] = []
        while self.plan():
            rows += self.read()
            self.commit()
        return rows


def _again(reader: Any) -> Any:
    return pickle.loads(pickle.dumps(reader))
