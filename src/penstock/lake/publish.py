"""Gold -> PostgreSQL: the small tables that the UI reads, so that it never talks to Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from typing import Final

import pyarrow as pa

from penstock.lake.files import read_rows
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, LakeTable
from penstock.lake.refresh import Gold
from penstock.lake.registry import Registry

ROWS_AT_ONCE: Final = 2_000


def publish(lake: Lake, registry: Registry, changed: Iterable[Gold] | None = None) -> int:
    """Brings PostgreSQL what it lacks of gold; returns how many rows changed there.

    `changed` are the rows since it last did, where the caller has them; else it is told every day
    that changed since.
    """
    state = lake.ledger.settle()
    sent = 0
    if changed is not None:
        for gold in changed:
            for table, rows in gold.items():
                sent += _send(registry, table, rows)
    else:
        query = "select published_version from penstock.lakes where name = %s"
        (published,) = registry.call(query, registry.name)[0]
        for table in GOLD:
            for file in state.of(table):
                if file.version > published:
                    sent += _send(registry, table, read_rows(lake, table, [file]))
    registry.call("select penstock.lake_published(%s, %s)", registry.name, state.version)
    return sent


def _send(registry: Registry, table: LakeTable, rows: pa.Table) -> int:
    """In pieces, each in a transaction of its own: what is sent again changes nothing."""
    changed = 0
    for start in range(0, rows.num_rows, ROWS_AT_ONCE):
        piece = rows.slice(start, ROWS_AT_ONCE).to_pylist()
        text = json.dumps(piece, default=_iso)
        query = "select penstock.publish_gold(%s, %s::jsonb)"
        changed += registry.call(query, table.name, text)[0][0]
    return changed


def _iso(value: date) -> str:
    return value.isoformat()
