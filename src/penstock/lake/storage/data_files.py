"""The files that a step stages, and their metadata. Tasks or Spark write them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from penstock.lake import columns
from penstock.lake.layout import LakeTable
from penstock.lake.storage.checksums import file_checksum, spark_checksums
from penstock.lake.storage.filesystem import LocalStorage
from penstock.lake.storage.ledger import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.lake.lake import Lake

COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1
# The rows of one partition that a task holds before it writes a row group.
_GROUP_ROWS: Final = 100_000
_GROUP_BYTES: Final = 32 * 2**20


class PartitionedFiles:
    """Arrow batches of a table, split by partition into Parquet files on a local disk.

    For a task. It works in Python alone, which is the main reason why landing is fast.
    """

    def __init__(self, root: str, table: LakeTable) -> None:
        self._root = Path(root)
        self._table = table
        self._schema = columns.file_arrow(table)
        self._open: dict[tuple[Any, ...], _GrowingFile] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        for values, part in _split(batch, self._table):
            file = self._open.get(values)
            if file is None:
                file = self._open[values] = self._create(values)
            file.add(pa.RecordBatch.from_arrays(_chosen(part, self._schema), schema=self._schema))

    def close(self) -> list[DataFile]:
        """Every file, flushed to the disk."""
        files = [file.close() for file in self._open.values()]
        self._open.clear()
        return files

    def _create(self, values: tuple[Any, ...]) -> _GrowingFile:
        folders = (f"{k}={v}" for k, v in zip(self._table.partitions, values, strict=True))
        path = "/".join([self._table.path, *folders, f"part-{uuid4().hex}.parquet"])
        return _GrowingFile(self._root, path, self._table, self._schema)


class _GrowingFile:
    def __init__(self, root: Path, path: str, table: LakeTable, schema: pa.Schema) -> None:
        self._place = root / path
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._table = table
        self._writer = pq.ParquetWriter(
            self._place, schema, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL
        )
        self._held: list[pa.RecordBatch] = []
        self._ranges: list[tuple[int, int, int, int]] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        held = sum(part.num_rows for part in self._held)
        if held >= _GROUP_ROWS or sum(part.nbytes for part in self._held) >= _GROUP_BYTES:
            self._flush()

    def close(self) -> DataFile:
        self._flush()
        self._writer.close()
        _sync(self._place)
        low_id, high_id, low_at, high_at = zip(*self._ranges, strict=True)
        return DataFile(
            self._path,
            self._rows,
            self._place.stat().st_size,
            min(low_id),
            max(high_id),
            min(low_at),
            max(high_at),
            sha256=file_checksum(self._place),
        )

    def _flush(self) -> None:
        if not self._held:
            return
        group = pa.Table.from_batches(self._held)
        self._held = []
        self._writer.write_table(group)
        ids = pc.min_max(group[self._table.id_column])
        times = pc.min_max(group[self._table.time_column].cast(pa.int64()))
        self._ranges.append((*_ends(ids), *_ends(times)))


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _ends(found: pa.StructScalar) -> tuple[int, int]:
    return found["min"].as_py(), found["max"].as_py()


def _chosen(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    return [batch.column(name) for name in schema.names]


def _split(
    batch: pa.RecordBatch, table: LakeTable
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows of each day and queue, in their original order."""
    days = batch.column(table.time_column).cast(pa.date32())
    queues = batch.column("queue")
    keys = pc.binary_join_element_wise(days.cast(pa.string()), queues, "/").dictionary_encode()
    values = [tuple(key.split("/")) for key in keys.dictionary.to_pylist()]
    if len(values) == 1:
        yield values[0], batch
        return
    codes = keys.indices.to_numpy()
    ordered = batch.take(pa.array(np.argsort(codes, kind="stable")))
    start = 0
    for value, count in zip(values, np.bincount(codes, minlength=len(values)), strict=True):
        yield value, ordered.slice(start, int(count))
        start += int(count)


def write_frame(lake: Lake, frame: DataFrame, table: LakeTable, staging: str) -> list[DataFile]:
    """Stages a DataFrame with Spark, on any file system."""
    chosen = frame.select(*columns.names(table))
    # Spark's default encoding has no statistics, and few other readers support it.
    lake.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    writer = chosen.write.partitionBy(*table.partitions)
    writer.option("compression", COMPRESSION).parquet(
        lake.storage.address(f"{staging}/{table.path}")
    )
    return written_files(lake, table, staging)


def write_rows(lake: Lake, rows: pa.Table, table: LakeTable, staging: str) -> list[DataFile]:
    """Stages a few rows by day, with the driver, or with Spark if only Spark can write there."""
    if not isinstance(lake.storage, LocalStorage):
        return write_frame(lake, lake.spark.createDataFrame(rows), table, staging)
    schema = columns.file_arrow(table)
    files = []
    for day in sorted(set(rows["day"].to_pylist())):
        part = rows.filter(pc.equal(rows["day"], pa.scalar(day))).select(schema.names)
        path = f"{table.path}/day={day.isoformat()}/part-{uuid4().hex}.parquet"
        place = lake.storage.directory / staging / path
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part.cast(schema), place, compression=COMPRESSION)
        _sync(place)
        size, checksum = place.stat().st_size, file_checksum(place)
        files.append(DataFile(path, part.num_rows, size, sha256=checksum))
    return files


def read_rows(lake: Lake, table: LakeTable, files: Iterable[DataFile]) -> pa.Table:
    """A few rows, in the driver's memory."""
    schema = columns.arrow(table)
    if not isinstance(lake.storage, LocalStorage):
        return lake.frame(table, files).toArrow().cast(schema)
    parts = [schema.empty_table()]
    for file in files:
        found = pq.ParquetFile(lake.storage.directory / file.path).read()
        days = pa.array([date.fromisoformat(file.day)] * found.num_rows, pa.date32())
        parts.append(found.append_column("day", days).cast(schema))
    return pa.concat_tables(parts)


def written_files(lake: Lake, table: LakeTable, staging: str) -> list[DataFile]:
    """The files that Spark wrote into a staging directory, with their rows and ranges."""
    sizes = {
        path.removeprefix(f"{staging}/"): size
        for path, size in lake.storage.data_files(f"{staging}/{table.path}")
        if path.endswith(".parquet")
    }
    if isinstance(lake.storage, LocalStorage):
        root = lake.storage.directory / staging
        return [_from_footer(root, path, size, table) for path, size in sizes.items()]
    if not sizes:
        return []
    checksums = spark_checksums(lake.spark, lake.storage, staging, list(sizes))
    files = _counted(lake.read(table, list(sizes), staging), table, sizes)
    return [replace(file, sha256=checksums[file.path]) for file in files]


def _from_footer(root: Path, path: str, size: int, table: LakeTable) -> DataFile:
    found = pq.read_metadata(root / path)
    ids = _column_range(found, table.id_column)
    times = _column_range(found, table.time_column)
    checksum = file_checksum(root / path)
    return DataFile(path, found.num_rows, size, *ids, *times, sha256=checksum)


def _column_range(found: pq.FileMetaData, name: str | None) -> tuple[int | None, int | None]:
    if name is None:
        return None, None
    number = found.schema.names.index(name)
    parts = [found.row_group(n).column(number).statistics for n in range(found.num_row_groups)]
    if not parts or not all(part is not None and part.has_min_max for part in parts):
        return None, None
    return min(part.min_raw for part in parts), max(part.max_raw for part in parts)


def _counted(frame: DataFrame, table: LakeTable, sizes: dict[str, int]) -> list[DataFile]:
    """With Spark, if nothing else can read the files."""
    none = sf.lit(None).cast("bigint")
    ids = sf.col(table.id_column) if table.id_column else none
    times = sf.unix_micros(table.time_column) if table.time_column else none
    rows = (
        frame.groupBy(sf.col("_metadata.file_path").alias("file"))
        .agg(
            sf.count("*").alias("rows"),
            *(sf.min(ids).alias("id_min"), sf.max(ids).alias("id_max")),
            *(sf.min(times).alias("at_min"), sf.max(times).alias("at_max")),
        )
        .collect()
    )
    files = []
    for row in rows:
        # The address may be written in another way than ours. Below the table it is the same.
        path = f"{table.path}/{row['file'].rpartition(f'/{table.path}/')[2]}"
        ranges = (row["id_min"], row["id_max"], row["at_min"], row["at_max"])
        files.append(DataFile(path, row["rows"], sizes[path], *ranges))
    return files
