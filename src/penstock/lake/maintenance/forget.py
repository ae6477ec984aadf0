"""Erases messages from every layer of the lake and from PostgreSQL's history.

One step of the ledger replaces the files that hold them and counts gold again. The files of before
are then deleted, also those that Delta keeps for time travel, and everything in quarantine. The
ledger keeps how many rows went, and when, but nothing of their content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.errors import LakeError
from penstock.lake import gold, silver
from penstock.lake.damage import require_intact
from penstock.lake.gold_rows import count_gold
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE,
    BRONZE_HISTORY,
    GOLD,
    QUARANTINE,
    SILVER,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
    LakeTable,
)
from penstock.lake.maintenance.compact import clear
from penstock.lake.publish import publish, trim
from penstock.lake.registry import Registry
from penstock.lake.replay import matching
from penstock.lake.storage.data_files import read_rows, write_frame, write_rows
from penstock.lake.storage.ledger import DataFile, Entry, State

IDS_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`lake_rows` are rows of bronze and silver; `postgres_rows` are rows of history."""

    messages: int
    lake_rows: int
    postgres_rows: int
    days: tuple[str, ...]


def matches(lake: Lake, where: str) -> DataFrame:
    """The keys of the messages in bronze and silver that meet the condition."""
    files = [f for table in (*BRONZE, *SILVER) for f in lake.state().of(table)]
    require_intact(lake, files)
    landed = silver.messages(lake.frame(BRONZE_HISTORY))
    every = landed.unionByName(lake.frame(SILVER_MESSAGES))
    return matching(every, where).select(*silver.MESSAGE_KEY).distinct()


def forget(lake: Lake, registry: Registry, where: str) -> Forgotten:
    found = matches(lake, where).persist()
    keys = [(row["id"], row["enqueued_at"].astimezone(UTC)) for row in found.collect()]
    state = lake.ledger.settle()
    if state.pending:
        raise LakeError(
            f"silver lacks {len(state.pending)} files of bronze",
            hint="Nothing was erased. Run `penstock lake run --once` first.",
        )
    # PostgreSQL first: if this is interrupted, the condition still finds the rest in the lake.
    erased = 0
    for start in range(0, len(keys), IDS_AT_ONCE):
        ids, times = zip(*keys[start : start + IDS_AT_ONCE], strict=True)
        query = "select penstock.erase_history(%s::bigint[], %s::timestamptz[])"
        erased += registry.call(query, list(ids), list(times))[0][0]
    rows, days = _rewrite(lake, state, found, where) if keys else (0, set())
    found.unpersist()
    clear(lake, 0)
    lake.storage.remove(QUARANTINE)
    after = lake.state()
    publish(lake, registry)
    for table in GOLD:
        for day in sorted(days):
            files = [file for file in after.of(table) if file.day == day]
            trim(registry, table, day, read_rows(lake, table, files))
    return Forgotten(len(keys), rows, erased, tuple(sorted(days)))


def _rewrite(lake: Lake, state: State, found: DataFrame, where: str) -> tuple[int, set[str]]:
    """Replaces the files that hold the messages, in one step. How many rows went, of which days."""
    staging = lake.new_staging()
    added: list[DataFile] = []
    replaced: list[DataFile] = []
    for table in (*BRONZE, *SILVER):
        old = _holding(lake, state, table, found)
        replaced += old
        for epoch in sorted({file.epoch for file in old}):
            # Spark writes a directory once: each epoch gets its own, and is moved together after.
            part = f"{staging}-{len(added)}-{epoch}"
            same = [file for file in old if file.epoch == epoch]
            rows = _without(lake.frame(table, same), table, found)
            for file in write_frame(lake, rows, table, part):
                lake.storage.move(f"{part}/{file.path}", f"{staging}/{file.path}")
                added.append(replace(file, epoch=epoch))
            lake.storage.remove(part)
    gone = sum(file.rows for file in replaced) - sum(file.rows for file in added)
    first = state.floors.get("silver", "")
    days = {file.day for file in replaced if file.day >= first}
    messages, attempts = (
        _silver(lake, state, table, days, replaced, added, staging)
        for table in (SILVER_MESSAGES, SILVER_ATTEMPTS)
    )
    for table, rows in count_gold(gold.events(messages, attempts), GOLD).items():
        added += write_rows(lake, rows, table, staging)
        replaced += [file for file in state.of(table) if file.day in days]
    record = {"rows": gone, "where_sha256": hashlib.sha256(where.encode()).hexdigest()}
    lake.ledger.commit(
        Entry(
            kind="forget",
            staging=staging,
            add=tuple(added),
            remove=tuple(file.path for file in replaced),
            record=record,
        )
    )
    return gone, days


def _silver(
    lake: Lake,
    state: State,
    table: LakeTable,
    days: Collection[str],
    replaced: Collection[DataFile],
    added: Collection[DataFile],
    staging: str,
) -> DataFrame:
    """A silver table of these days as it will be."""
    gone = {file.path for file in replaced}
    kept = [file for file in state.of(table) if file.day in days and file.path not in gone]
    new = [file.path for file in added if file.table == table.path and file.day in days]
    return lake.frame(table, kept).unionByName(lake.read(table, new, staging))


def _holding(lake: Lake, state: State, table: LakeTable, found: DataFrame) -> list[DataFile]:
    """The files of a table with rows of these messages."""
    files = state.of(table)
    if not files:
        return []
    path = sf.substring_index("_metadata.file_path", f"/{table.path}/", -1).alias("path")
    rows = lake.frame(table, files).select("*", path)
    hit = rows.join(_keys(table, found), on=list(_key(table)), how="left_semi")
    names = {row["path"] for row in hit.select("path").distinct().collect()}
    return [file for file in files if file.path.removeprefix(f"{table.path}/") in names]


def _without(rows: DataFrame, table: LakeTable, found: DataFrame) -> DataFrame:
    kept = rows.join(_keys(table, found), on=list(_key(table)), how="left_anti")
    return kept.select(*rows.columns)


def _key(table: LakeTable) -> tuple[str, ...]:
    """An attempt does not say when its message was enqueued."""
    return silver.MESSAGE_KEY if table.id_column == "id" else ("service", "message_id")


def _keys(table: LakeTable, found: DataFrame) -> DataFrame:
    keys = found if table.id_column == "id" else found.withColumnRenamed("id", "message_id")
    return keys.select(*_key(table)).distinct()
