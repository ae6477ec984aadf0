"""Moves damaged files aside and restores their rows.

Bronze is restored from PostgreSQL as far as it still has the rows, and from silver otherwise.
Silver and gold are recomputed. After a kill, the next repair continues: a damaged file leaves the
ledger only in the step that adds its replacement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.errors import LakeError, translated
from penstock.lake import columns, silver
from penstock.lake.bronze import still_in_postgres
from penstock.lake.damage import Damage, find_damage, find_differences
from penstock.lake.declarations import require_transforms
from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, QUARANTINE, TABLES, LakeTable
from penstock.lake.maintenance.rebuild import rebuild
from penstock.lake.parts import Observer, Parts, unobserved
from penstock.lake.refresh import STAGES, Pair, Stage, refresh
from penstock.lake.run_steps import RunStep
from penstock.lake.storage.data_files import write_frame
from penstock.lake.storage.ledger import DataFile, Entry, State
from penstock.spark.options import Service
from penstock.spark.service_connection import connect

# The largest number of ids that are listed. Others are only counted.
LISTED_IDS: Final = 100_000
_IN_POSTGRES: Final = """
select id from penstock.messages where id between %(low)s and %(high)s
union all
select id from penstock.history where id between %(low)s and %(high)s
"""


@dataclass(frozen=True, slots=True)
class Lost:
    """Lost rows.

    `ids` are their messages. It is empty if the file cannot be read. Then they are `rows` of the
    messages from `id_min` to `id_max`.
    """

    table: str
    day: str
    queue: str | None
    rows: int
    ids: tuple[int, ...]
    id_min: int | None
    id_max: int | None


@dataclass(frozen=True, slots=True)
class Repaired:
    """`refetched` rows came from PostgreSQL, `restored` rows from silver."""

    damaged: list[Damage]
    quarantine: str | None
    refetched: int
    restored: int
    rebuilt_days: tuple[str, ...]
    lost: list[Lost]

    def report(self, step: RunStep) -> None:
        step.rows, step.files = self.refetched + self.restored, len(self.damaged)
        for damage in self.damaged:
            step.wrote(damage.table, damage.rows)


def repair(lake: Lake, dsn: str, observer: Observer = unobserved) -> Repaired:
    require_transforms(lake)
    parts = Parts(observer, 3 + len(STAGES))
    parts.begin("files")
    quarantine = f"{QUARANTINE}/{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    unlisted = _restore_formats(lake, quarantine)
    damaged = find_damage(lake)
    if not damaged:
        return Repaired(unlisted, quarantine if unlisted else None, 0, 0, (), [])
    state = lake.state()
    work = _Repair(lake, state, dsn, quarantine, {damage.path for damage in damaged})
    for path in sorted(work.damaged):
        if lake.storage.exists(path):
            lake.storage.move(path, f"{quarantine}/{path}")
    refetched = restored = 0
    lost: list[Lost] = []
    for stage in STAGES:
        parts.begin(stage.bronze.path)
        found = work.bronze(stage)
        refetched, restored, lost = refetched + found[0], restored + found[1], [*lost, *found[2]]
    derived = {damage.day for damage in damaged if not damage.table.startswith("bronze/")}
    parts.begin("silver and gold of damaged days")
    if derived:
        rebuild(lake, None, derived, work.damaged)
    parts.begin("silver and gold of restored rows")
    while refresh(lake):
        pass
    return Repaired(
        [*damaged, *unlisted], quarantine, refetched, restored, tuple(sorted(derived)), lost
    )


def _restore_formats(lake: Lake, quarantine: str) -> list[Damage]:
    """The first step, because a step cannot be published while a log cannot be read."""
    with suppress(LakeError):
        lake.ledger.settle()
    state = lake.state()
    found = find_differences(lake, state)
    for damage in found:
        lake.format.restore(lake.table(damage.table), state, quarantine)
    return found


@dataclass(frozen=True, slots=True)
class _Repair:
    lake: Lake
    state: State
    dsn: str
    quarantine: str
    damaged: set[str]

    def bronze(self, stage: Stage) -> tuple[int, int, list[Lost]]:
        """Restores rows of damaged files in bronze. Returns their sources, and the lost rows.

        Silver of a day that bronze has removed is restored in this way too.
        """
        first = self.state.floors.get("bronze", "")
        gone = [
            *self._files(stage, stage.bronze.path, damaged=True),
            *(f for f in self._files(stage, stage.silver.path, damaged=True) if f.day < first),
        ]
        if not gone:
            return 0, 0, []
        pairs = {(file.day, file.queue) for file in gone}
        known = self._known(stage, pairs)
        # Rows from before a `begin` do not count for those after it, which verify compares.
        current = known.where(sf.col("epoch") == self.state.epoch)
        fetched = silver.unknown(
            _within(still_in_postgres(self.lake, self.state, stage.bronze, self.dsn), pairs),
            current,
            stage.key,
        ).persist()
        derived = [
            file
            for file in self._files(stage, stage.silver.path, damaged=False)
            if (file.day, file.queue) in pairs and file.day >= first
        ]
        older = self.lake.frame(stage.silver, derived).withColumn("xid", sf.lit(None).cast("long"))
        older = older.select(*columns.names(stage.bronze))
        older = silver.unknown(silver.unknown(older, known, stage.key), fetched, stage.key)
        staging = self.lake.new_staging()
        added = write_frame(self.lake, fetched.unionByName(older), stage.bronze, staging)
        fetched.unpersist()
        back = self.lake.read(stage.bronze, [file.path for file in added], staging)
        ((refetched, rows),) = back.select(sf.count("xid"), sf.count("*")).collect()
        there = known.drop("epoch").unionByName(back.select(*stage.key, "day", "queue"))
        lost = self._lost(stage, gone, there, added)
        self.lake.ledger.commit(
            Entry(
                kind="repair",
                staging=staging,
                add=tuple(replace(file, refetched=True) for file in added),
                remove=tuple(f.path for f in gone if f.table == stage.bronze.path),
            )
        )
        return refetched, rows - refetched, lost

    def _files(self, stage: Stage, table: str, *, damaged: bool) -> list[DataFile]:
        return [f for f in self.state.of(TABLES[table]) if (f.path in self.damaged) == damaged]

    def _known(self, stage: Stage, pairs: Collection[Pair]) -> DataFrame:
        """The keys of existing rows: those in bronze, and those in silver that bronze lacks."""
        first = self.state.floors.get("bronze", "")
        frame = self._keys(stage, stage.bronze, [], -1)
        for table in (stage.bronze, stage.silver):
            files = [
                file
                for file in self._files(stage, table.path, damaged=False)
                if (file.day, file.queue) in pairs and (table == stage.bronze or file.day < first)
            ]
            for epoch in sorted({file.epoch for file in files}):
                same = [file for file in files if file.epoch == epoch]
                now = self.state.epoch if table == stage.silver else epoch
                frame = frame.unionByName(self._keys(stage, table, same, now))
        return frame

    def _keys(
        self, stage: Stage, table: LakeTable, files: Sequence[DataFile], epoch: int
    ) -> DataFrame:
        rows = self.lake.frame(table, files)
        return rows.select(*stage.key, "day", "queue", sf.lit(epoch).alias("epoch"))

    def _lost(
        self, stage: Stage, gone: Sequence[DataFile], there: DataFrame, added: Sequence[DataFile]
    ) -> list[Lost]:
        by_pair: dict[Pair, list[DataFile]] = defaultdict(list)
        for file in gone:
            by_pair[file.day, file.queue].append(file)
        lost = []
        for (day, queue), files in sorted(by_pair.items(), key=lambda item: str(item[0])):
            back = sum(f.rows for f in added if (f.day, f.queue) == (day, queue))
            missing = sum(file.rows for file in files) - back
            if missing <= 0:
                continue
            rows = there.where((sf.col("day") == day) & (sf.col("queue") == queue))
            if found := self._lost_of(stage, files, rows, missing):
                lost.append(found)
        return lost

    def _lost_of(
        self, stage: Stage, files: Sequence[DataFile], there: DataFrame, missing: int
    ) -> Lost | None:
        """The rows of these files of one day and queue that no other file has.

        A file with a damaged column may still contain the ids of its messages. Otherwise its range
        of ids is used, if exactly as many of them are neither in another file nor in PostgreSQL.
        """
        id_column = stage.bronze.id_column or ""
        low = min((f.id_min for f in files if f.id_min is not None), default=None)
        high = max((f.id_max for f in files if f.id_max is not None), default=None)
        first = files[0]
        place = (stage.bronze.path, first.day, first.queue)
        salvaged = [self._salvaged_ids(file, id_column) for file in files]
        if all(ids is not None for ids in salvaged):
            present = {row[0] for row in there.select(id_column).distinct().collect()}
            ids = sorted({id for each in salvaged for id in each or ()} - present)
            return Lost(*place, len(ids), tuple(ids[:LISTED_IDS]), low, high) if ids else None
        ids = []
        if low is not None and high is not None and high - low < LISTED_IDS:
            everywhere = [f for f in self.state.of(stage.bronze) if f.path not in self.damaged]
            known = self.lake.frame(stage.bronze, everywhere).select(id_column)
            known = known.unionByName(there.select(id_column))
            near = known.where(sf.col(id_column).between(low, high)).distinct().collect()
            other = {row[0] for row in near}
            if stage.bronze == BRONZE_HISTORY:
                other |= self._in_postgres(low, high)
            ids = sorted(set(range(low, high + 1)) - other)
            if not ids:
                return None
        exact = len(ids) == missing
        return Lost(*place, missing, tuple(ids) if exact else (), low, high)

    def _in_postgres(self, low: int, high: int) -> set[int]:
        """The messages of a range that are unfinished, or that have finished and not landed."""
        with connect(Service("local", self.dsn)) as connection, translated():
            return {row[0] for row in connection.execute(_IN_POSTGRES, {"low": low, "high": high})}

    def _salvaged_ids(self, file: DataFile, column: str) -> list[Any] | None:
        """The ids in a damaged file, if that column can still be read."""
        try:
            with self.lake.storage.local_copy(f"{self.quarantine}/{file.path}") as copy:
                found = pq.ParquetFile(copy).read(columns=[column])[column].to_pylist()
        except Exception:  # any error that arbitrary bytes cause in a reader
            return None
        plausible = len(found) == file.rows and all(
            isinstance(id, int) and (file.id_min or 0) <= id <= (file.id_max or id) for id in found
        )
        return found if plausible else None


def _within(rows: DataFrame, pairs: Collection[Pair]) -> DataFrame:
    names = [f"{day}/{queue}" for day, queue in pairs]
    return rows.where(sf.concat_ws("/", sf.col("day").cast("string"), "queue").isin(names))
