"""Whether the lake has what PostgreSQL has: counts and checksums by day and queue.

Compared is what PostgreSQL still holds of what has landed since the lake (last) began: history
that was dropped meanwhile, and days that the lake no longer keeps, are out of it on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from penstock.errors import translated
from penstock.lake.bronze import SOURCES
from penstock.lake.contract import SERVICE, Table
from penstock.lake.lake import Lake
from penstock.lake.layout import LakeTable
from penstock.lake.ledger import State
from penstock.lake.offsets import LogOffset, Place
from penstock.lake.options import Service
from penstock.lake.plan import Planner, Stretch
from penstock.lake.registry import Registry
from penstock.lake.server import Server, connect
from penstock.lake.snapshot import NOTHING
from penstock.lake.statements import statement

# A page of the log at a time, so that no snapshot stays open for long.
ROWS_AT_ONCE: Final = 50_000
Key = tuple[str, str]
# Not told by the row itself, or different after a restored database was taken over.
_APART: Final = frozenset({SERVICE, "queue", "xid"})


@dataclass(frozen=True, slots=True)
class Digest:
    rows: int
    checksum: int


NONE: Final = Digest(0, 0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One day of one queue, on both sides."""

    table: str
    day: str
    queue: str
    postgres: Digest
    lake: Digest

    @property
    def agrees(self) -> bool:
        return self.postgres == self.lake


def verify(lake: Lake, registry: Registry, service: Service) -> list[Comparison]:
    """Every day and queue that either side has."""
    state = lake.ledger.settle()
    (floor,) = registry.call("select penstock.history_dropped_through()")[0]
    found = []
    for table, source in SOURCES.items():
        there = _in_postgres(service, state, table, source, floor)
        here = _in_lake(lake, state, table, source, floor)
        first = state.floors.get(table.layer, "")
        for day, queue in sorted(there.keys() | here.keys()):
            if day >= first:
                pair = there.get((day, queue), NONE), here.get((day, queue), NONE)
                found.append(Comparison(table.path, day, queue, *pair))
    if all(each.agrees for each in found):
        registry.call("select penstock.lake_verified(%s)", registry.name)
    return found


def _in_postgres(
    service: Service, state: State, table: LakeTable, source: Table, floor: int
) -> dict[Key, Digest]:
    offset = state.offsets.get(table.path)
    if not offset:
        return {}
    end = LogOffset.from_json(offset, source.name).place(service.name)
    with Server(service) as server:
        start = Place(server.database, NOTHING)
        stretches = Planner(server, source, "true", ROWS_AT_ONCE).within(start, end)
    rows: Counter[Key] = Counter()
    sums: Counter[Key] = Counter()
    for day, queue, count, checksum in _digests(service, source, stretches, floor):
        rows[day, queue] += count
        sums[day, queue] += int(checksum)
    return {key: Digest(rows[key], sums[key]) for key in rows}


def _digests(
    service: Service, source: Table, stretches: list[Stretch], floor: int
) -> Iterator[tuple[str, str, int, str]]:
    row = ", ".join(f"coalesce({_sql_text(name, kind)}, '~')" for name, kind in _compared(source))
    with translated(), connect(service) as connection:
        for stretch in stretches:
            query = statement("digest").format(
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
                connection.execute(statement("planner").encode())
                yield from connection.execute(query.encode()).fetchall()


def _in_lake(
    lake: Lake, state: State, table: LakeTable, source: Table, floor: int
) -> dict[Key, Digest]:
    files = [file for file in state.of(table) if file.epoch == state.epoch]
    texts = [sf.coalesce(_spark_text(name, kind), sf.lit("~")) for name, kind in _compared(source)]
    number = sf.conv(sf.substring(sf.md5(sf.concat_ws("|", *texts)), 1, 15), 16, 10)
    rows = (
        lake.frame(table, files)
        .where(sf.col("xid") > floor)
        .groupBy("day", "queue")
        .agg(
            sf.count("*").alias("rows"),
            sf.sum(number.cast("decimal(20,0)")).alias("checksum"),
        )
        .collect()
    )
    return {(row["day"].isoformat(), row["queue"]): _digest(row) for row in rows}


def _digest(row: Any) -> Digest:
    return Digest(row["rows"], int(Decimal(row["checksum"])))


def _compared(source: Table) -> list[tuple[str, str]]:
    return [(c.name, c.spark_type) for c in source.columns if c.name not in _APART]


def _sql_text(name: str, kind: str) -> str:
    if kind == "timestamp":
        return f"(extract(epoch from {name}) * 1000000)::bigint::text"
    return f"md5({name})" if kind == "binary" else f"{name}::text"


def _spark_text(name: str, kind: str) -> Column:
    if kind == "timestamp":
        return sf.unix_micros(name).cast("string")
    return sf.md5(name) if kind == "binary" else sf.col(name).cast("string")
