"""Erases messages from every layer of the lake and from PostgreSQL's history.

One step of the ledger replaces the files that contain them and counts gold again. The previous
files are then deleted, including those that Delta keeps for time travel, and everything in
quarantine. The ledger keeps the number of rows and the time, but nothing of their content.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.errors import InvalidValueError, LakeConflictError
from penstock.lake import gold, silver
from penstock.lake.bronze import unfinished_in_postgres
from penstock.lake.damage import require_intact
from penstock.lake.declarations import require_transforms
from penstock.lake.declared_tables import recompute_own_gold
from penstock.lake.gold_rows import count_gold
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE_HISTORY,
    GOLD,
    QUARANTINE,
    SILVER,
    SILVER_MESSAGES,
    LakeTable,
)
from penstock.lake.maintenance.compact import clear
from penstock.lake.maintenance.rebuild import recompute_stale
from penstock.lake.maintenance.rewrite import Rewritten, rewrite
from penstock.lake.parts import Observer, Parts, unobserved
from penstock.lake.project.publication import analyze_own_gold
from penstock.lake.publish import publish, trim
from penstock.lake.refresh import refresh
from penstock.lake.registry import Registry
from penstock.lake.replay import matching
from penstock.lake.step import Step
from penstock.lake.storage.data_files import read_rows, write_frame
from penstock.lake.storage.ledger import DataFile, State

IDS_AT_ONCE: Final = 5_000
TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`lake_rows` are rows of bronze and silver; `postgres_rows` are rows of history."""

    messages: int
    lake_rows: int
    postgres_rows: int
    days: tuple[str, ...]
    # Messages that match and are not finished, by state. They stay.
    unfinished: dict[str, int] = field(default_factory=dict)
    rewritten: Rewritten | None = None


def matches(lake: Lake, where: str) -> DataFrame:
    """The keys of the messages in bronze and silver that meet the condition."""
    files = [f for table in lake.tables("bronze", "silver") for f in lake.state().of(table)]
    require_intact(lake, files)
    landed = silver.messages(lake.frame(BRONZE_HISTORY))
    every = landed.unionByName(lake.frame(SILVER_MESSAGES))
    found = matching(every, where)
    if not _is_repeatable(found):
        raise InvalidValueError(
            "the condition has another result each time it is evaluated",
            hint="Leave out functions such as rand() and uuid().",
            field="where",
            value=where,
        )
    return found.select(*silver.MESSAGE_KEY).distinct()


def _is_repeatable(rows: DataFrame) -> bool:
    """Whether the rows are the same each time. They are evaluated for each layer.

    Spark Connect does not tell, so there every condition is accepted.
    """
    classic = getattr(rows, "_jdf", None)
    return classic is None or bool(classic.queryExecution().analyzed().deterministic())


def unfinished_matches(lake: Lake, dsn: str, where: str) -> dict[str, int]:
    """The messages that would meet the condition if they finished now, by state."""
    rows = matching(silver.messages(unfinished_in_postgres(lake, dsn)), where)
    return {row["state"]: row["count"] for row in rows.groupBy("state").count().collect()}


def forget(
    lake: Lake,
    registry: Registry,
    found: DataFrame,
    where: str,
    observer: Observer = unobserved,
    *,
    is_rewriting: bool = False,
) -> Forgotten:
    """Erases the messages that `matches` has found for this condition."""
    require_transforms(lake)
    parts = Parts(observer, 3 + len(lake.tables("bronze", "silver")))
    keys = [(row["id"], row["enqueued_at"].astimezone(UTC)) for row in found.collect()]
    # An active run may have landed more since. These rows are not erased, but a file of bronze
    # must be in silver before it is rewritten.
    while recompute_stale(lake) or refresh(lake):
        pass
    # PostgreSQL first: if this is interrupted, the condition still finds the rest in the lake.
    erased = 0
    parts.begin("PostgreSQL")
    for start in range(0, len(keys), IDS_AT_ONCE):
        ids, times = zip(*keys[start : start + IDS_AT_ONCE], strict=True)
        query = "select penstock.erase_history(%s::bigint[], %s::timestamptz[])"
        erased += registry.call(query, list(ids), list(times))[0][0]
    rows, days = _until_rewritten(lake, found, where, parts) if keys else (0, set())
    parts.begin("replaced files")
    clear(lake, 0)
    lake.storage.remove(QUARANTINE)
    # A step that another run began before, such as a compaction, may contain the messages.
    lake.clear_staging()
    after = lake.state()
    publish(lake, registry)
    for table in GOLD:
        for day in sorted(days):
            files = [file for file in after.of(table) if file.day == day]
            trim(registry, table, day, read_rows(lake, table, files))
    if keys:
        registry.call("select penstock.analyze_history()")
        analyze_own_gold(lake, registry)
    published = [own.publish for own in lake.declared().gold if own.publish is not None]
    rewritten = rewrite(registry.service, published, parts) if is_rewriting else None
    parts.begin("unfinished messages")
    unfinished = unfinished_matches(lake, registry.service.address(), where)
    return Forgotten(len(keys), rows, erased, tuple(sorted(days)), unfinished, rewritten)


def _until_rewritten(
    lake: Lake, found: DataFrame, where: str, parts: Parts
) -> tuple[int, set[str]]:
    """Tries again if an active run has replaced files meanwhile."""
    for _ in range(TRIES - 1):
        with suppress(LakeConflictError):
            return _rewrite(lake, found, where, parts)
    return _rewrite(lake, found, where, parts)


def _rewrite(lake: Lake, found: DataFrame, where: str, parts: Parts) -> tuple[int, set[str]]:
    """Replaces the files of the messages, in one step. Returns the rows and their days."""
    step = Step.begin(lake)
    for table in lake.tables("bronze", "silver"):
        parts.begin(table.path)
        old = _holding(lake, step.state, table, found)
        step.replace(old)
        for epoch in sorted({file.epoch for file in old}):
            # Spark writes a directory once, so each epoch gets its own. All are moved together
            # afterwards.
            part = f"{step.staging}-{len(step.added)}-{epoch}"
            same = [file for file in old if file.epoch == epoch]
            rows = _without(lake.frame(table, same), table, found)
            for file in write_frame(lake, rows, table, part):
                lake.storage.move(f"{part}/{file.path}", f"{step.staging}/{file.path}")
                step.added.append(replace(file, epoch=epoch))
            lake.storage.remove(part)
    gone = sum(file.rows for file in step.replaced) - sum(file.rows for file in step.added)
    parts.begin("gold")
    first = step.state.floors.get("silver", "")
    days = {file.day for file in step.replaced if file.day >= first}
    messages, attempts = (step.rows(table, days) for table in SILVER)
    for table, rows in count_gold(gold.events(messages, attempts), GOLD).items():
        step.write_rows(rows, table)
        step.replace(step.old(table, days))
    recompute_own_gold(step, days)
    record = {"rows": gone, "where_sha256": hashlib.sha256(where.encode()).hexdigest()}
    step.commit("forget", record=record)
    return gone, days


def _holding(lake: Lake, state: State, table: LakeTable, found: DataFrame) -> list[DataFile]:
    """The files of a table with rows of these messages."""
    files = state.of(table)
    if not files:
        return []
    path = sf.substring_index("_metadata.file_path", f"/{table.path}/", -1).alias("path")
    rows = lake.frame(table, files).select("*", path)
    hit = rows.join(_keys(table, found), on=list(_key(table).values()), how="left_semi")
    names = {row["path"] for row in hit.select("path").distinct().collect()}
    return [file for file in files if file.path.removeprefix(f"{table.path}/") in names]


def _without(rows: DataFrame, table: LakeTable, found: DataFrame) -> DataFrame:
    kept = rows.join(_keys(table, found), on=list(_key(table).values()), how="left_anti")
    return kept.select(*rows.columns)


def _key(table: LakeTable) -> dict[str, str]:
    """The columns of the table by those of a message. An attempt has no time of enqueue."""
    if table.id_column == "id":
        return {name: name for name in silver.MESSAGE_KEY}
    if table.declared_schema is not None:
        return {name: f"message_{name}" for name in silver.MESSAGE_KEY}
    return {"service": "service", "id": "message_id"}


def _keys(table: LakeTable, found: DataFrame) -> DataFrame:
    return found.select(*(sf.col(a).alias(b) for a, b in _key(table).items())).distinct()
