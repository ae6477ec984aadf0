"""PostgreSQL -> bronze: unchanged history and attempts, in files by day and queue.

A task reads Arrow from PostgreSQL and writes the Parquet files. The driver gets their names, and
publishes them. If the lake is not in a local directory, Spark writes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.errors import LakeError
from penstock.lake import columns
from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_ATTEMPTS, BRONZE_HISTORY, LakeTable
from penstock.lake.storage.data_files import PartitionedFiles, write_frame
from penstock.lake.storage.filesystem import LocalStorage
from penstock.lake.storage.ledger import DataFile, Entry, State
from penstock.spark.log_reader import LogStreamReader
from penstock.spark.options import SourceOptions
from penstock.spark.partitions import LogPartition
from penstock.spark.snapshot_reader import SnapshotReader
from penstock.spark.table_columns import ATTEMPTS, HISTORY, MESSAGES

SOURCES: Final = {BRONZE_HISTORY: HISTORY, BRONZE_ATTEMPTS: ATTEMPTS}
_FILE_SCHEMA: Final = (
    "path string, rows bigint, bytes bigint, id_min bigint, id_max bigint, at_min bigint, "
    "at_max bigint, version bigint, epoch bigint, sha256 string, "
    "refetched boolean"
)


def from_source(log: DataFrame, table: LakeTable) -> DataFrame:
    """The rows of a log as the source delivers them, with their day."""
    days = log.withColumn("day", sf.to_date(table.time_column or ""))
    return days.select(*columns.names(table))


@dataclass(frozen=True, slots=True)
class Batch:
    """The next rows to land: the input of each task, and the position of the source after them."""

    expects: dict[str, Any]
    offsets: dict[str, Any]
    parts: tuple[tuple[LakeTable, InputPartition], ...]
    rows: int


class Landing:
    """Reads the logs of one database into one lake, batch by batch."""

    def __init__(self, lake: Lake, options: dict[str, str], max_rows: int) -> None:
        self._lake = lake
        self._max_rows = max_rows
        self._readers = {
            table: LogStreamReader(
                SourceOptions.read({**options, "table": source.name}), columns.source_schema(source)
            )
            for table, source in SOURCES.items()
        }

    def next_batch(self, state: State) -> Batch | None:
        """The batch to land now, or None if there is nothing."""
        offsets, parts, rows = {}, [], 0
        for table, reader in self._readers.items():
            start = state.offsets.get(table.path) or reader.initialOffset()
            end = reader.latestOffset(start, ReadMaxRows(self._max_rows))
            offsets[table.path] = end
            for part in reader.partitions(start, end):
                parts.append((table, part))
                rows += _count(part)
        if not parts:
            return None
        return Batch(state.offsets, offsets, tuple(parts), rows)

    def land(self, batch: Batch) -> list[DataFile]:
        """Stages the files of the batch, then publishes them."""
        staging = self._lake.new_staging()
        if isinstance(self._lake.storage, LocalStorage):
            files = self._by_tasks(batch, staging)
        else:
            files = self._by_spark(batch, staging)
        landed = sum(file.rows for file in files)
        if landed != batch.rows:
            raise LakeError(
                f"PostgreSQL counted {batch.rows} rows to land, but {landed} were read",
                hint="Nothing was changed. Run it again. If it fails again, history was edited.",
            )
        self._lake.ledger.commit(
            Entry(
                kind="land",
                staging=staging,
                add=tuple(files),
                expects=batch.expects,
                offsets=batch.offsets,
            )
        )
        return files

    def __enter__(self) -> Landing:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        for reader in self._readers.values():
            reader.stop()

    def _by_tasks(self, batch: Batch, staging: str) -> list[DataFile]:
        root = self._lake.storage.address(staging)
        task = _writing_task(batch.parts, self._readers, root)
        rows = _spread(self._lake, len(batch.parts)).mapInArrow(task, _FILE_SCHEMA).collect()
        return [DataFile(*row) for row in rows]

    def _by_spark(self, batch: Batch, staging: str) -> list[DataFile]:
        files = []
        for table, reader in self._readers.items():
            parts = [part for each, part in batch.parts if each == table]
            if not parts:
                continue
            task = _reading_task(parts, reader)
            log = _spread(self._lake, len(parts)).mapInArrow(
                task, columns.source_schema(SOURCES[table])
            )
            files += write_frame(self._lake, from_source(log, table), table, staging)
        return files


def still_in_postgres(lake: Lake, state: State, table: LakeTable, dsn: str) -> DataFrame:
    """The landed rows that PostgreSQL still has, in the form of bronze."""
    source = SOURCES[table]
    schema = columns.source_schema(source)
    offset = state.offsets.get(table.path)
    if not offset:
        return lake.frame(table, ())
    reader = LogStreamReader(SourceOptions.read({"dsn": dsn, "table": source.name}), schema)
    try:
        parts = list(reader.partitions(reader.initialOffset(), offset))
    finally:
        reader.stop()
    if not parts:
        return lake.frame(table, ())
    log = _spread(lake, len(parts)).mapInArrow(_reading_task(parts, reader), schema)
    return from_source(log, table)


def unfinished_in_postgres(lake: Lake, dsn: str) -> DataFrame:
    """The messages that are not finished, in the form that bronze would have if they were now."""
    schema = columns.source_schema(MESSAGES)
    reader = SnapshotReader(SourceOptions.read({"dsn": dsn, "table": MESSAGES.name}), schema)
    parts = list(reader.partitions())
    live = _spread(lake, len(parts)).mapInArrow(_reading_task(parts, reader), schema)
    size = sf.octet_length(sf.coalesce("payload_bytes", sf.encode("payload", "utf-8")))
    finished = live.withColumns(
        {
            "queue": sf.coalesce("original_queue", "queue"),
            "attempts": sf.col("attempt"),
            "last_claimed_at": sf.col("claimed_at"),
            "finished_at": sf.current_timestamp(),
            "payload_bytes_count": size.cast("int"),
            "headers_bytes_count": sf.octet_length("headers").cast("int"),
            "xid": sf.lit(None).cast("bigint"),
        }
    )
    return from_source(finished, BRONZE_HISTORY)


Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _spread(lake: Lake, tasks: int) -> DataFrame:
    """One row, its number, for each task."""
    return lake.spark.range(0, tasks, 1, tasks)


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _writing_task(
    parts: tuple[tuple[LakeTable, InputPartition], ...],
    readers: dict[LakeTable, LogStreamReader],
    root: str,
) -> Task:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            table, part = parts[number]
            files = PartitionedFiles(root, table)
            for batch in readers[table].read(part):
                files.write(batch)
            yield _as_batch(files.close())

    return task


def _reading_task(parts: list[InputPartition], reader: LogStreamReader | SnapshotReader) -> Task:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            yield from reader.read(parts[number])

    return task


def _as_batch(files: list[DataFile]) -> pa.RecordBatch:
    types = {"path": pa.string(), "sha256": pa.string(), "refetched": pa.bool_()}
    schema = pa.schema([(f.name, types.get(f.name, pa.int64())) for f in fields(DataFile)])
    return pa.RecordBatch.from_pylist([asdict(file) for file in files], schema=schema)


def _count(part: InputPartition) -> int:
    stretches = part.stretches if isinstance(part, LogPartition) else ()
    return sum(stretch.count for stretch in stretches)
