"""Compares the gold that is published in PostgreSQL with the gold of the lake, and publishes again.

The rows of the lake are copied into a temporary table, in the way in which they are published.
PostgreSQL then compares both. Days that have changed since the last publication are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from penstock.errors import translated
from penstock.lake import columns, gold
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, LakeTable
from penstock.lake.maintenance.comparison import NAMED_ROWS, Comparison, Digest
from penstock.lake.project.publication import copy_rows, target
from penstock.lake.publish import as_json, publish
from penstock.lake.registry import Registry
from penstock.lake.storage.data_files import read_rows
from penstock.lake.storage.ledger import DataFile, State
from penstock.sql.loader import load_query

# So that no transaction is open for long.
ROWS_AT_ONCE: Final = 50_000
_EXPECTED: Final = sql.Identifier("pg_temp", "expected_gold")
_UTC_DAY: Final = sql.SQL("(minute at time zone 'UTC')::date")
# PostgreSQL keeps rows by minute for 35 days.
_RECENT: Final = sql.SQL("minute > now() - interval '34 days'")
Fill = Callable[[psycopg.Connection[Any], list[DataFile]], None]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A published table: the expressions for its rows, and the way to copy rows of the lake."""

    table: LakeTable
    name: str
    fields: tuple[str, ...]
    key: tuple[str, ...]
    day: sql.Composable
    within: sql.Composable
    fill: Fill


def republish(lake: Lake, registry: Registry) -> int:
    """Publishes everything again if PostgreSQL differs. Returns the rows that changed there."""
    if all(each.agrees for each in compare_published(lake, registry)):
        return 0
    return publish(lake, registry, everything=True)


def compare_published(
    lake: Lake, registry: Registry, damaged: Collection[str] = ()
) -> list[Comparison]:
    """Nothing is compared if several lakes publish, because they replace each other's rows."""
    query = load_query("lake/published_version")
    ((published,),) = registry.call(query, registry.name) or [(None,)]
    if published is None:
        return []
    state = lake.ledger.settle()
    found = [
        (copy.table, each)
        for copy in _copies(lake)
        for each in _compare(registry, state, copy, published, damaged)
    ]
    # Another run may have published days meanwhile.
    now = lake.ledger.settle()
    return [
        each
        for table, each in found
        if each.agrees or each.day not in _unpublished(now, table, published)
    ]


def _copies(lake: Lake) -> Iterator[_Copy]:
    for table in GOLD:
        by_minute = "minute" in gold.KEYS[table]
        fields = tuple(n for n in columns.names(table) if not n.endswith("_histogram"))
        yield _Copy(
            table,
            f"penstock.{table.view}",
            tuple(name for name in fields if not by_minute or name != "day"),
            gold.KEYS[table],
            _UTC_DAY if by_minute else sql.SQL("day"),
            _RECENT if by_minute else sql.SQL("true"),
            _filling(lake, table),
        )
    for own in lake.declared().gold:
        if own.publish is not None:
            fields = tuple(columns.names(own.table))
            others = (name for name in fields if name != "day" and name not in own.combine)
            key = ("day", *others)[:3]
            yes = sql.SQL("true")
            fill = _copying(lake, own.table)
            yield _Copy(own.table, own.publish, fields, key, sql.SQL("day"), yes, fill)


def _filling(lake: Lake, table: LakeTable) -> Fill:
    insert = sql.SQL("insert into {0} select * from jsonb_populate_recordset(null::{0}, %s::jsonb)")

    def fill(connection: psycopg.Connection[Any], files: list[DataFile]) -> None:
        for piece in as_json(read_rows(lake, table, files)):
            connection.execute(insert.format(_EXPECTED), [piece])

    return fill


def _copying(lake: Lake, table: LakeTable) -> Fill:
    def fill(connection: psycopg.Connection[Any], files: list[DataFile]) -> None:
        copy_rows(lake, table, files, connection, _EXPECTED)

    return fill


def _compare(
    registry: Registry, state: State, copy: _Copy, published: int, damaged: Collection[str]
) -> Iterator[Comparison]:
    left_out = _unpublished(state, copy.table, published)
    left_out |= {file.day for file in state.of(copy.table) if file.path in damaged}
    by_day: dict[str, list[DataFile]] = {day: [] for day in _days(registry, state, copy)}
    for file in state.of(copy.table):
        by_day.setdefault(file.day, []).append(file)
    for days in _grouped({day: files for day, files in by_day.items() if day not in left_out}):
        yield from _compare_days(registry, copy, days)


def _days(registry: Registry, state: State, copy: _Copy) -> list[str]:
    """The days that PostgreSQL may have: those of gold, and of a table that it has by itself."""
    if copy.table in GOLD:
        return sorted({file.day for table in GOLD for file in state.of(table)})
    query = sql.SQL("select distinct day::text from {} where day >= %s").format(target(copy.name))
    first = state.floors.get("gold", "-infinity")
    with translated():
        rows = registry.connection().execute(query, [first]).fetchall()
    return sorted(day for (day,) in rows)


def _compare_days(
    registry: Registry, copy: _Copy, days: dict[str, list[DataFile]]
) -> Iterator[Comparison]:
    relation = sql.Identifier(*copy.name.split("."))
    fields = sql.SQL(", ").join(map(sql.Identifier, copy.fields))
    make = sql.SQL("create temp table expected_gold on commit drop as select {} from {} limit 0")
    has_queue = "queue" in copy.fields
    compare = sql.SQL(load_query("lake/compare_published")).format(
        expected=_EXPECTED,
        published=relation,
        fields=fields,
        day=copy.day,
        queue=sql.SQL("queue") if has_queue else sql.SQL("''"),
        name=sql.SQL(", ").join(
            sql.SQL("{} || {}::text").format(sql.Literal(f"{part}="), sql.Identifier(part))
            for part in copy.key
        ),
        within=copy.within,
        most=sql.Literal(NAMED_ROWS),
    )
    connection = registry.connection()
    with translated(), connection.transaction():
        connection.execute(make.format(fields, relation))
        copy.fill(connection, [file for files in days.values() for file in files])
        rows = connection.execute(compare, {"days": list(days)}).fetchall()
    for day, queue, expected, found, differing in rows:
        sides = Digest(*map(int, expected)), Digest(*map(int, found))
        yield Comparison(copy.name, "gold", day, queue, *sides, tuple(differing))


def _unpublished(state: State, table: LakeTable, published: int) -> set[str]:
    """The days that have changed. A step may leave a table of gold without rows of a day."""
    tables = GOLD if table in GOLD else (table,)
    return {f.day for each in tables for f in state.of(each) if f.version > published}


def _grouped(by_day: dict[str, list[DataFile]]) -> Iterator[dict[str, list[DataFile]]]:
    """Some days at a time, with at most ROWS_AT_ONCE rows unless one day has more."""
    group: dict[str, list[DataFile]] = {}
    rows = 0
    for day, files in sorted(by_day.items()):
        count = sum(file.rows for file in files)
        if group and rows + count > ROWS_AT_ONCE:
            yield group
            group, rows = {}, 0
        group[day] = files
        rows += count
    if group:
        yield group
