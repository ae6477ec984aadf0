"""Compaction, retention, schema evolution, Delta, Iceberg, another file system."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.lake import columns
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE,
    BRONZE_HISTORY,
    GOLD_QUEUE_DAY,
    SILVER,
    SILVER_MESSAGES,
    TABLES,
)
from penstock.lake.maintenance.compact import clear, compact, needs_compacting, retain
from penstock.lake.maintenance.verify import verify
from penstock.lake.storage.checksums import file_checksum
from penstock.spark.options import Service

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def counts(lake: Lake) -> dict[str, int]:
    return {table.path: lake.frame(table).count() for table in (*BRONZE, *SILVER)}


def agrees(lake: Lake, registry: Any, dsn: str) -> bool:
    found = verify(lake, registry, Service("local", dsn))
    return bool(found.compared) and found.agrees


@pytest.mark.parametrize(
    "lake", [pytest.param("parquet", marks=pytest.mark.slow), "delta"], indirect=True
)
def test_small_files_are_joined_and_nothing_is_lost(
    traffic: Any, lake: Any, land: Any, gild: Any, registry: Any, dsn: str
) -> None:
    for _ in range(2):
        traffic.done("orders", 20)
        traffic.fails("mail", "boom")
        land(lake)
        gild(lake)
    traffic.done("orders", 5)
    land(lake)  # not in silver yet, so bronze does not join these files
    before, pending = counts(lake), lake.state().pending
    done = compact(lake)
    assert done.before > done.after
    assert not needs_compacting(lake, 2)
    assert lake.state().pending == pending
    assert counts(lake) == before
    assert agrees(lake, registry, dsn)
    gild(lake)
    assert counts(lake)["silver/messages"] == before["bronze/history"]
    listed = {path for table in TABLES for path, _ in lake.storage.data_files(table)}
    known = set(lake.state().files)
    if lake.about.format == "parquet":
        assert listed == known
        return
    # Delta keeps what was replaced, until it is cleared.
    assert known < listed
    assert clear(lake, 0) > 0
    assert {path for table in TABLES for path, _ in lake.storage.data_files(table)} == known
    from deltalake import DeltaTable

    delta = DeltaTable(lake.storage.address(BRONZE_HISTORY.path))
    assert delta.to_pyarrow_table().num_rows == before["bronze/history"]
    assert {uri.rpartition("/")[2] for uri in delta.file_uris()} == {
        file.path.rpartition("/")[2] for file in lake.state().of(BRONZE_HISTORY)
    }


def test_days_that_are_too_old_go_and_verify_knows(
    traffic: Any, lake: Any, land: Any, gild: Any, registry: Any, sql: Any, dsn: str
) -> None:
    # The same for all of it, at any time of day.
    today = sql("select now()")[0][0]
    sql(
        "insert into penstock.history_log (slot, id, queue, state, enqueued_at, finished_at,"
        " attempts, max_attempts, priority, payload_bytes_count, headers_bytes_count, payload)"
        " select 0, 1000 + n, 'orders', 'done', at, at, 1, 5, 0, 2, 0, '{}'"
        " from generate_series(1, 10) n, lateral (select %s - n * interval '1 day' as at) t"
        " returning 1",
        today,
    )
    traffic.done("orders", 5)
    land(lake)
    gild(lake)
    keep = {"bronze": timedelta(days=4), "silver": timedelta(days=7)}
    assert retain(lake, keep, today) > 0
    assert counts(lake) == {
        "bronze/history": 5 + 4,
        "bronze/attempts": 0,
        "silver/messages": 5 + 7,
        "silver/attempts": 0,
    }
    assert lake.frame(GOLD_QUEUE_DAY).count() == 11
    assert agrees(lake, registry, dsn)
    # One more row of a day that silver no longer has: its gold stays as it was counted.
    sql(
        "insert into penstock.history_log (slot, id, queue, state, enqueued_at, finished_at,"
        " attempts, max_attempts, priority, payload_bytes_count, headers_bytes_count, payload)"
        " values (0, 2000, 'orders', 'done', %s, %s, 1, 5, 0, 2, 0, '{}') returning 1",
        *[today - timedelta(days=9)] * 2,
    )
    land(lake)
    gild(lake)
    assert lake.frame(GOLD_QUEUE_DAY).groupBy().sum("finished").first()[0] == 15
    assert retain(lake, {}, datetime.now(UTC)) == 0


def test_files_from_before_a_column_was_added_read_as_null(
    traffic: Any, lake: Any, land: Any, gild: Any
) -> None:
    traffic.done("orders", 3)
    land(lake)
    (file,) = lake.state().of(BRONZE_HISTORY)
    place = Path(lake.storage.address(file.path))
    pq.write_table(pq.ParquetFile(place).read().drop_columns(["group_key"]), place)
    # As the ledger of that time would have it: the size, and no checksum.
    older = replace(file, bytes=place.stat().st_size, sha256=None)
    lake.state().files[file.path] = older
    assert [row.group_key for row in lake.frame(BRONZE_HISTORY).collect()] == [None] * 3
    gild(lake)
    assert lake.frame(SILVER_MESSAGES).count() == 3


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_delta_table_from_before_a_column_was_added_gets_it(
    traffic: Any, lake: Any, land: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    whole = columns.arrow

    def older(table: Any) -> pa.Schema:
        return pa.schema([field for field in whole(table) if field.name != "group_key"])

    with monkeypatch.context() as patch:
        patch.setattr(columns, "arrow", older)
        traffic.done("orders", 3)
        land(lake)
    address = lake.storage.address(BRONZE_HISTORY.path)
    assert "group_key" not in {field.name for field in DeltaTable(address).schema().fields}
    traffic.done("orders", 3)
    land(lake)
    found = DeltaTable(address).to_pyarrow_table()
    assert found["group_key"].to_pylist() == [None] * 6


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_an_iceberg_catalog_that_was_lost_gets_every_file_and_column_again(
    traffic: Any, lake: Any, land: Any, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = columns.arrow

    def older(table: Any) -> pa.Schema:
        return pa.schema([field for field in whole(table) if field.name != "group_key"])

    def found() -> pa.Table:
        return lake.format._load(BRONZE_HISTORY).scan().to_arrow()

    for _ in range(2):
        traffic.done("orders", 3)
        land(lake)
    assert found().num_rows == 6
    assert len(sql("delete from penstock.iceberg_tables returning 1")) == 1
    with monkeypatch.context() as patch:
        patch.setattr(columns, "arrow", older)
        traffic.done("orders", 3)
        land(lake)
        table = lake.format._load(BRONZE_HISTORY)
        assert "group_key" not in table.schema().column_names
        assert table.scan().count() == 9
    traffic.done("orders", 3)
    land(lake)
    assert found()["group_key"].to_pylist() == [None] * 12


@pytest.mark.slow
@pytest.mark.usefixtures("one_day")
def test_a_lake_on_another_file_system_is_the_same(
    spark: Any, traffic: Any, land: Any, gild: Any, registry: Any, dsn: str, tmp_path: Path
) -> None:
    """viewfs stands for HDFS and the object stores: what is reached through Hadoop alone."""
    configuration = spark._jsc.hadoopConfiguration()
    (tmp_path / "far").mkdir()
    name = f"fs.viewfs.mounttable.{tmp_path.name}.link./far"
    configuration.set(name, f"file://{tmp_path / 'far'}")
    root = f"viewfs://{tmp_path.name}/far/lake"
    lake = Lake.open_or_create(root, spark, format="parquet", guard=registry.writing)
    for _ in range(2):
        traffic.done("orders", 20)
        traffic.fails("mail", "boom")
        land(lake)
        gild(lake)
    assert compact(lake).before > 0
    again = Lake.open(root, spark)
    assert counts(again) == {
        "bronze/history": 42,
        "bronze/attempts": 2,
        "silver/messages": 42,
        "silver/attempts": 2,
    }
    assert again.frame(GOLD_QUEUE_DAY).groupBy().sum("finished").first()[0] == 42
    assert agrees(again, registry, dsn)
    for file in again.state().files.values():
        assert file.sha256 == file_checksum(tmp_path / "far/lake" / file.path)
    assert not list((tmp_path / "far").rglob("_staging/*/*"))
