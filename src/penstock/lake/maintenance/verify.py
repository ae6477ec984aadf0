"""Checks every layer of the lake.

Each file is compared with its checksum in the ledger. Bronze is compared with PostgreSQL, silver
with bronze, gold with silver, and published gold with gold, by day and queue. Rows are compared if
these differ. Data that one side has removed is left out: dropped history, and days before a layer's
floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from penstock.errors import translated
from penstock.lake import gold
from penstock.lake.bronze import SOURCES, still_in_postgres
from penstock.lake.damage import Damage, find_damage, find_differences
from penstock.lake.declarations import require_transforms
from penstock.lake.declared_tables import gold_rows
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    GOLD,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
    SILVER_QUARANTINE,
    LakeTable,
)
from penstock.lake.maintenance.comparison import NAMED_ROWS, NONE, Comparison, Digest, Key
from penstock.lake.maintenance.published import compare_published
from penstock.lake.maintenance.rebuild import whole_silver
from penstock.lake.models.typing_step import type_messages
from penstock.lake.parts import Observer, Parts, unobserved
from penstock.lake.refresh import STAGES
from penstock.lake.registry import Registry
from penstock.lake.step import Step
from penstock.lake.storage.ledger import DataFile, State
from penstock.spark.offsets import LogOffset, ServicePosition
from penstock.spark.options import Service
from penstock.spark.partitions import Planner, Stretch
from penstock.spark.service_connection import Server, connect
from penstock.spark.snapshot_diff import NOTHING
from penstock.spark.table_columns import SERVICE, Table
from penstock.sql.loader import load_query

# A page of the log at a time, so that no snapshot stays open for long.
ROWS_AT_ONCE: Final = 50_000
# Columns that the row itself does not determine, or that a restored database may change.
_APART: Final = frozenset({SERVICE, "queue", "xid"})


@dataclass(frozen=True, slots=True)
class Verification:
    damaged: list[Damage]
    compared: list[Comparison]

    @property
    def agrees(self) -> bool:
        return not self.damaged and all(each.agrees for each in self.compared)


def verify(
    lake: Lake, registry: Registry, service: Service, observer: Observer = unobserved
) -> Verification:
    """Every file, and every day and queue of every table."""
    require_transforms(lake)
    state = lake.ledger.settle()
    parts = Parts(observer, 2 + len(lake.tables()))
    parts.begin("files")
    damaged = find_damage(lake)
    check = _Check(lake, state, frozenset(damage.path for damage in damaged), parts)
    (floor,) = registry.call("select penstock.history_dropped_through()")[0]
    compared = [
        *check.bronze(service, floor),
        *check.silver(),
        *check.gold(),
        *check.typed(),
        *check.own_gold(),
    ]
    parts.begin("published gold")
    compared += compare_published(lake, registry, check.damaged)
    found = Verification([*damaged, *find_differences(lake, state)], compared)
    if found.agrees:
        registry.call("select penstock.lake_verified(%s)", registry.name)
    return found


@dataclass(frozen=True, slots=True)
class _Check:
    lake: Lake
    state: State
    damaged: frozenset[str]
    parts: Parts

    def bronze(self, service: Service, floor: int) -> Iterator[Comparison]:
        """Compares bronze with the history that landed since the lake (last) began."""
        first = self.state.floors.get("bronze", "")
        for table, source in SOURCES.items():
            self.parts.begin(table.path)
            files = [file for file in self._intact(table) if file.epoch == self.state.epoch]
            rows = self.lake.frame(table, files).where(sf.col("xid") > floor)
            expected = _in_postgres(service, self.state, table, source, floor)
            found = _digests(rows, _postgres_checksum(source))
            pairs = _pairs(expected, found, first)
            wrong = {pair for pair in pairs if expected.get(pair) != found.get(pair)}
            names: dict[Key, tuple[str, ...]] = {}
            if wrong:
                there = still_in_postgres(self.lake, self.state, table, service.address())
                names = _differing(
                    there.where(sf.col("xid") > floor),
                    rows,
                    wrong,
                    _row_key(table),
                    _postgres_checksum(source),
                )
            yield from _compared(table, "postgresql", pairs, expected, found, names)

    def silver(self) -> Iterator[Comparison]:
        """Compares with bronze, from the first day that both layers have."""
        floors = self.state.floors
        first = max(floors.get("bronze", ""), floors.get("silver", ""))
        without = self.damaged | self.state.pending
        for stage in STAGES:
            self.parts.begin(stage.silver.path)
            days = {file.day for file in self.state.of(stage.bronze) if file.day >= first}
            found = self.lake.frame(
                stage.silver, [file for file in self._intact(stage.silver) if file.day >= first]
            )
            expected = whole_silver(self.lake, self.state, stage, days, without)
            yield from _compare(stage.silver, "bronze", first, expected, found, stage.key)

    def gold(self) -> Iterator[Comparison]:
        """Compares with silver, from the first day that silver has."""
        first = self.state.floors.get("silver", "")
        messages, attempts = (
            self.lake.frame(table, [file for file in self._intact(table) if file.day >= first])
            for table in (SILVER_MESSAGES, SILVER_ATTEMPTS)
        )
        events = gold.events(messages, attempts)
        for table in GOLD:
            self.parts.begin(table.path)
            files = [file for file in self._intact(table) if file.day >= first]
            expected = gold.TRANSFORMS[table](events)
            found = self.lake.frame(table, files)
            yield from _compare(table, "silver", first, expected, found, gold.KEYS[table])

    def typed(self) -> Iterator[Comparison]:
        """Compares typed tables and quarantine with silver, except days to be recomputed."""
        first = self.state.floors.get("silver", "")
        quarantined = []
        for model in self.lake.declared().models:
            self.parts.begin(model.table.path)
            stale = set(self.state.stale.get(model.table.path, ()))
            messages = self._frame(SILVER_MESSAGES, first, stale, model.queue)
            expected, unfit = type_messages(messages, model)
            found = self._frame(model.table, first, stale)
            yield from _compare(model.table, "silver", first, expected, found, ("message_id",))
            quarantined.append((unfit, self._frame(SILVER_QUARANTINE, first, stale, model.queue)))
        if quarantined:
            self.parts.begin(SILVER_QUARANTINE.path)
        for expected, found in quarantined:
            yield from _compare(SILVER_QUARANTINE, "silver", first, expected, found, ("id",))

    def own_gold(self) -> Iterator[Comparison]:
        """Compares the gold of a project with the results of its functions."""
        first = self.state.floors.get("silver", "")
        step = Step(self.lake, self.state, "")
        for own in self.lake.declared().gold:
            self.parts.begin(own.table.path)
            stale = set(self.state.stale.get(own.table.path, ()))
            inputs = [self._frame(self.lake.table(path), first, stale) for path in own.reads]
            expected = gold_rows(step, own, inputs)
            found = self._frame(own.table, first, stale)
            key = [name for name in expected.columns if name not in own.combine][:3]
            yield from _compare(own.table, "silver", first, _by_day(expected), _by_day(found), key)

    def _frame(
        self, table: LakeTable, first: str, stale: Collection[str], queue: str | None = None
    ) -> DataFrame:
        files = [
            file
            for file in self._intact(table)
            if file.day >= first and file.day not in stale and queue in (None, file.queue)
        ]
        return self.lake.frame(table, files)

    def _intact(self, table: LakeTable) -> list[DataFile]:
        return [file for file in self.state.of(table) if file.path not in self.damaged]


def _compare(
    table: LakeTable,
    against: str,
    first: str,
    expected: DataFrame,
    found: DataFrame,
    key: Collection[str],
) -> Iterator[Comparison]:
    """Compares two frames with the same columns."""
    # Percentiles follow from the histograms, which are compared.
    apart = gold.PERCENTILES if table in GOLD else ()
    checksum = sf.xxhash64(*(name for name in expected.columns if name not in apart))
    there, here = _digests(expected, checksum), _digests(found, checksum)
    pairs = _pairs(there, here, first)
    wrong = {pair for pair in pairs if there.get(pair) != here.get(pair)}
    differing = _differing(expected, found, wrong, key, checksum) if wrong else {}
    yield from _compared(table, against, pairs, there, here, differing)


def _by_day(rows: DataFrame) -> DataFrame:
    """A table without a queue, in a form in which the order of additions has no effect."""
    same = rows if "queue" in rows.columns else rows.withColumn("queue", sf.lit(""))
    inexact = [f.name for f in rows.schema if f.dataType.typeName() in ("double", "float")]
    return same.withColumns({name: sf.format_string("%.9e", name) for name in inexact})


def _pairs(expected: dict[Key, Digest], found: dict[Key, Digest], first: str) -> list[Key]:
    return [pair for pair in sorted(expected.keys() | found.keys()) if pair[0] >= first]


def _compared(
    table: LakeTable,
    against: str,
    pairs: Collection[Key],
    expected: dict[Key, Digest],
    found: dict[Key, Digest],
    names: dict[Key, tuple[str, ...]],
) -> Iterator[Comparison]:
    for day, queue in pairs:
        sides = expected.get((day, queue), NONE), found.get((day, queue), NONE)
        differing = names.get((day, queue), ())
        yield Comparison(table.path, against, day, queue, *sides, differing)


def _digests(rows: DataFrame, checksum: Column) -> dict[Key, Digest]:
    digests = (
        rows.groupBy("day", "queue")
        .agg(
            sf.count("*").alias("rows"),
            sf.sum(checksum.cast("decimal(20,0)")).alias("checksum"),
        )
        .collect()
    )
    return {
        (row["day"].isoformat(), row["queue"]): Digest(row["rows"], int(Decimal(row["checksum"])))
        for row in digests
    }


def _differing(
    expected: DataFrame,
    found: DataFrame,
    pairs: Collection[Key],
    key: Collection[str],
    checksum: Column,
) -> dict[Key, tuple[str, ...]]:
    """The keys of rows that are missing on one side or differ, by day and queue."""

    def side(rows: DataFrame) -> DataFrame:
        within = sf.concat_ws("/", sf.col("day").cast("string"), "queue").isin(
            [f"{day}/{queue}" for day, queue in pairs]
        )
        name = sf.concat_ws(" ", *(sf.concat(sf.lit(f"{part}="), part) for part in key))
        return rows.where(within).select("day", "queue", name.alias("name"), checksum.alias("sum"))

    here, there = side(expected), side(found)
    rows = here.exceptAll(there).unionByName(there.exceptAll(here)).distinct()
    number = sf.row_number().over(Window.partitionBy("day", "queue").orderBy("name"))
    chosen = rows.withColumn("number", number).where(sf.col("number") <= NAMED_ROWS)
    names: dict[Key, dict[str, None]] = {}
    for row in chosen.orderBy("number").collect():
        names.setdefault((row["day"].isoformat(), row["queue"]), {})[row["name"]] = None
    return {pair: tuple(found) for pair, found in names.items()}


def _row_key(table: LakeTable) -> tuple[str, ...]:
    stage = next(stage for stage in STAGES if stage.bronze == table)
    return tuple(name for name in stage.key if name != SERVICE)


def _in_postgres(
    service: Service, state: State, table: LakeTable, source: Table, floor: int
) -> dict[Key, Digest]:
    offset = state.offsets.get(table.path)
    if not offset:
        return {}
    end = LogOffset.from_json(offset, source.name).position(service.name)
    with Server(service) as server:
        start = ServicePosition(server.database, NOTHING)
        stretches = Planner(server, source, "true", ROWS_AT_ONCE).within(start, end)
    rows: Counter[Key] = Counter()
    sums: Counter[Key] = Counter()
    for day, queue, count, checksum in _pages(service, source, stretches, floor):
        rows[day, queue] += count
        sums[day, queue] += int(checksum)
    return {key: Digest(rows[key], sums[key]) for key in rows}


def _pages(
    service: Service, source: Table, stretches: list[Stretch], floor: int
) -> Iterator[tuple[str, str, int, str]]:
    row = ", ".join(f"coalesce({_sql_text(name, kind)}, '~')" for name, kind in _columns(source))
    with translated(), connect(service) as connection:
        for stretch in stretches:
            query = load_query("lake/digest").format(
                relation=source.relation,
                id=source.id,
                time=source.time,
                row=f"concat_ws('|', {row})",
                span=stretch.span.condition,
                floor=floor,
                after_xid=stretch.after.xid,
                after_id=stretch.after.id,
                until_xid=stretch.until.xid,
                until_id=stretch.until.id,
            )
            with connection.transaction():
                connection.execute(load_query("spark/planner").encode())
                yield from connection.execute(query.encode()).fetchall()


def _postgres_checksum(source: Table) -> Column:
    """The digest of a row of bronze, as lake/digest.sql computes it."""
    texts = [sf.coalesce(_spark_text(name, kind), sf.lit("~")) for name, kind in _columns(source)]
    return sf.conv(sf.substring(sf.md5(sf.concat_ws("|", *texts)), 1, 15), 16, 10)


def _columns(source: Table) -> list[tuple[str, str]]:
    return [(c.name, c.spark_type) for c in source.columns if c.name not in _APART]


def _sql_text(name: str, kind: str) -> str:
    if kind == "timestamp":
        return f"(extract(epoch from {name}) * 1000000)::bigint::text"
    return f"md5({name})" if kind == "binary" else f"{name}::text"


def _spark_text(name: str, kind: str) -> Column:
    if kind == "timestamp":
        return sf.unix_micros(name).cast("string")
    return sf.md5(name) if kind == "binary" else sf.col(name).cast("string")
