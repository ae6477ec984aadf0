"""Joins small files into large ones, and removes old days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.lake.damage import require_intact
from penstock.lake.lake import Lake
from penstock.lake.layout import LakeTable
from penstock.lake.parts import Observer, Parts, unobserved
from penstock.lake.storage.data_files import write_frame
from penstock.lake.storage.ledger import DataFile, Entry, State

TARGET_BYTES: Final = 128 * 2**20
# The size of a step is limited, so that a kill loses little work.
FILES_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Compacted:
    """The number of files before and after."""

    before: int
    after: int


def compact(lake: Lake, fewest: int = 2, observer: Observer = unobserved) -> Compacted:
    """Joins the small files of each day and queue, if there are at least `fewest` of them."""
    before = after = 0
    tables = _growing(lake)
    parts = Parts(observer, len(tables))
    for table in tables:
        parts.begin(table.path)
        while groups := list(_groups(lake.ledger.settle(), table, fewest)):
            old, new = _join(lake, table, groups)
            before, after = before + old, after + new
    return Compacted(before, after)


def needs_compacting(lake: Lake, fewest: int) -> bool:
    state = lake.state()
    return any(next(_groups(state, table, fewest), None) for table in _growing(lake))


def _growing(lake: Lake) -> list[LakeTable]:
    """The tables whose days get new files. The files of a day of other tables are replaced."""
    appended = [own.table for own in lake.declared().gold if own.by == "row" and not own.combine]
    return [*lake.tables("bronze", "silver"), *appended]


def _groups(state: State, table: LakeTable, fewest: int) -> Iterator[list[DataFile]]:
    """The files to join into one. Files that silver lacks are left alone until it has them."""
    small: dict[tuple[str, str | None, int], list[DataFile]] = defaultdict(list)
    for file in state.of(table):
        if file.bytes < TARGET_BYTES // 2 and file.path not in state.pending:
            small[file.day, file.queue, file.epoch].append(file)
    chosen = 0
    for files in small.values():
        if len(files) < fewest:
            continue
        for group in _filled(sorted(files, key=lambda file: (file.id_min or 0, file.path))):
            chosen += len(group)
            if chosen > FILES_AT_ONCE and chosen > len(group):
                return
            yield group


def _filled(files: list[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    for file in files:
        if group and sum(each.bytes for each in group) + file.bytes > TARGET_BYTES:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def _join(lake: Lake, table: LakeTable, groups: list[list[DataFile]]) -> tuple[int, int]:
    require_intact(lake, [file for group in groups for file in group])
    staging = lake.new_staging()
    files: list[DataFile] = []
    # A step for each epoch, because a file written by Spark does not contain its epoch.
    for epoch in sorted({group[0].epoch for group in groups}):
        chosen = [group for group in groups if group[0].epoch == epoch]
        place = f"{staging}-{epoch}"
        joined = write_frame(lake, _numbered(lake, table, chosen), table, place)
        old = [file.path for group in chosen for file in group]
        lake.ledger.commit(
            Entry(
                kind="compact",
                staging=place,
                add=tuple(replace(file, epoch=epoch) for file in joined),
                remove=tuple(old),
            )
        )
        files += joined
    return sum(map(len, groups)), len(files)


def _numbered(lake: Lake, table: LakeTable, groups: list[list[DataFile]]) -> DataFrame:
    """The rows of all groups, each group in one task."""
    numbers = [
        (file.path.removeprefix(f"{table.path}/"), number)
        for number, group in enumerate(groups)
        for file in group
    ]
    spark = lake.spark
    group_of = spark.createDataFrame(numbers, "path string, number int")
    rows = lake.frame(table, [file for group in groups for file in group])
    path = sf.substring_index("_metadata.file_path", f"/{table.path}/", -1)
    numbered = rows.withColumn("path", path).join(sf.broadcast(group_of), on="path")
    return numbered.repartitionByRange(len(groups), "number").drop("path", "number")


def retain(lake: Lake, keep: Mapping[str, timedelta], now: datetime | None = None) -> int:
    """Removes the days of a layer whose retention is over. Returns the number of files.

    A day stays in bronze until silver has all of it.
    """
    state = lake.ledger.settle()
    today = now or datetime.now(UTC)
    floors = {layer: (today - age).date().isoformat() for layer, age in keep.items()}
    gone = [
        file.path
        for file in state.files.values()
        if file.day < floors.get(file.layer, "") and file.path not in state.pending
    ]
    raised = {
        layer: floor for layer, floor in floors.items() if floor > state.floors.get(layer, "")
    }
    if gone:
        lake.ledger.commit(
            Entry(kind="retain", staging=lake.new_staging(), remove=tuple(gone), floors=raised)
        )
    return len(gone)


def clear(lake: Lake, hours: int) -> int:
    """Deletes the replaced files that readers could use for time travel. Returns their number."""
    settle = lake.ledger.settle
    return sum(lake.format.clear(table, settle, hours) for table in lake.tables())
