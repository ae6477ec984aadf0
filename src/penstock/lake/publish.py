"""Gold -> PostgreSQL: the small tables that the UI reads, so that it never needs Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Final

import pyarrow as pa

from penstock.lake.damage import require_intact
from penstock.lake.gold import KEYS
from penstock.lake.gold_rows import Gold
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, LakeTable
from penstock.lake.project.publication import publish_own_gold
from penstock.lake.registry import Registry
from penstock.lake.storage.data_files import read_rows

ROWS_AT_ONCE: Final = 2_000


def publish(
    lake: Lake,
    registry: Registry,
    changed: Iterable[Gold] | None = None,
    begin: Callable[[], None] = lambda: None,
    *,
    everything: bool = False,
) -> int:
    """Updates PostgreSQL with gold. Returns the number of rows that changed there.

    `changed` are the rows since the last call, if the caller has them. Otherwise every day that
    changed since then, or every day at all, is replaced, which also removes rows that a day no
    longer has. `begin` is called if the lake has changed.
    """
    state = lake.ledger.settle()
    query = "select published_version from penstock.lakes where name = %s"
    (published,) = (0,) if everything else registry.call(query, registry.name)[0]
    if published < state.version:
        begin()
    sent = publish_own_gold(lake, registry, state, published)
    if changed is not None:
        for gold in changed:
            for table, rows in gold.items():
                sent += _send(registry, table, rows)
    else:
        # A table may have lost all rows of a day, and so has no new file.
        days = {f.day for table in GOLD for f in state.of(table) if f.version > published}
        for table in GOLD:
            require_intact(lake, [file for file in state.of(table) if file.day in days])
            for day in sorted(days):
                files = [file for file in state.of(table) if file.day == day]
                rows = read_rows(lake, table, files)
                sent += _send(registry, table, rows) + trim(registry, table, day, rows)
    registry.call("select penstock.lake_published(%s, %s)", registry.name, state.version)
    registry.newest(state, published=True)
    return sent


def _send(registry: Registry, table: LakeTable, rows: pa.Table) -> int:
    """Sent in pieces, each in its own transaction. Rows that are sent again change nothing."""
    query = "select penstock.publish_gold(%s, %s::jsonb)"
    return sum(registry.call(query, table.name, piece)[0][0] for piece in as_json(rows))


def as_json(rows: pa.Table) -> Iterator[str]:
    """The published columns of gold, in pieces."""
    rows = rows.drop_columns([name for name in rows.column_names if name.endswith("_histogram")])
    for start in range(0, rows.num_rows, ROWS_AT_ONCE):
        yield json.dumps(rows.slice(start, ROWS_AT_ONCE).to_pylist(), default=_iso)


def trim(registry: Registry, table: LakeTable, day: str, rows: pa.Table) -> int:
    """Delete the other rows of a day from PostgreSQL, and return how many there were."""
    keys = json.dumps(rows.select(list(KEYS[table])).to_pylist(), default=_iso)
    query = "select penstock.trim_gold(%s, %s::date, %s::jsonb)"
    return int(registry.call(query, table.name, day, keys)[0][0])


def _iso(value: date) -> str:
    return value.isoformat()
