"""Damaged files: found, named, repaired, and the lake agrees with PostgreSQL again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from tests.lake.pipeline.conftest import Cli

from penstock.errors import DamagedFileError
from penstock.lake.damage import find_damage
from penstock.lake.declarations import declare
from penstock.lake.lake import Lake
from penstock.lake.layout import (
    BRONZE_HISTORY,
    GOLD_QUEUE_DAY,
    LAYERS,
    SILVER_MESSAGES,
    SILVER_QUARANTINE,
    TABLES,
    LakeTable,
)
from penstock.lake.maintenance.rebuild import rebuild
from penstock.lake.maintenance.repair import repair
from penstock.lake.maintenance.verify import Verification, verify
from penstock.lake.project import Project
from penstock.lake.publish import publish
from penstock.lake.refresh import refresh
from penstock.lake.run import Run
from penstock.lake.storage.filesystem import HadoopStorage
from penstock.spark.options import Service

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]

Check = Callable[[Lake], Verification]


@pytest.fixture
def check(registry: Any, dsn: str) -> Check:
    return lambda lake: verify(lake, registry, Service("local", dsn))


Fill = Callable[[], None]


@pytest.fixture
def fill(traffic: Any, lake: Lake, land: Any, gild: Any) -> Fill:
    """Brings 51 messages of three queues, with failures, up to gold."""

    def once() -> None:
        traffic.done("orders", 40)
        traffic.done("bills", 10)
        traffic.fails("mail", "smtp 421", attempts=2)
        land(lake)
        gild(lake)

    return once


@pytest.fixture
def filled(lake: Lake, fill: Fill) -> Lake:
    fill()
    return lake


def place(lake: Lake, path: str) -> Path:
    return Path(lake.storage.address(path))


def truncate(file: Path, chance: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: chance.randrange(file.stat().st_size)])


def flip(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def delete(file: Path, chance: random.Random) -> None:
    file.unlink()


def harm(lake: Lake, chance: random.Random, places: list[str]) -> dict[str, str]:
    """One file of each of these directories, in a random way. Returns the ways by path."""
    harmed: dict[str, str] = {}
    for each in places:
        files = [f for f in lake.state().files if f.startswith(f"{each}/") and f not in harmed]
        path = chance.choice(sorted(files))
        ruin = chance.choice([truncate, flip, delete])
        ruin(place(lake, path), chance)
        harmed[path] = ruin.__name__
    return harmed


def found_and_repaired(lake: Lake, harmed: dict[str, str], check: Check, dsn: str) -> None:
    before = check(lake)
    assert not before.agrees
    assert {damage.path for damage in before.damaged} == set(harmed)
    done = repair(lake, dsn)
    assert {damage.path for damage in done.damaged} == set(harmed)
    assert done.lost == []
    after = check(lake)
    assert after.agrees, after
    for path, way in harmed.items():
        print(f"{lake.about.format}: {way} {path}: found, named, repaired, verify agrees")


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta", "iceberg", "parquet"], indirect=True)
def test_random_damage_in_every_layer_is_found_named_and_repaired(
    filled: Lake, check: Check, dsn: str
) -> None:
    harmed = harm(filled, random.Random(19), [*LAYERS, *LAYERS])
    found_and_repaired(filled, harmed, check, dsn)
    if filled.about.format == "delta":
        address = filled.storage.address(BRONZE_HISTORY.path)
        assert DeltaTable(address).to_pyarrow_table().num_rows == 51
    if filled.about.format == "iceberg":
        assert filled.format._load(BRONZE_HISTORY).scan().to_arrow().num_rows == 51


def revenue(orders: DataFrame) -> DataFrame:
    return orders.groupBy("day", "n").agg(sf.count("*").alias("orders"))


@pytest.fixture
def declared(lake: Lake) -> Lake:
    """A lake with a typed table, so that some rows go into quarantine, and with its own gold."""
    project = Project()
    project.model("orders", "n BIGINT NOT NULL")
    project.gold("revenue", reads="silver_orders")(revenue)
    lake.project = project
    declare(lake, project)
    return lake


# Directories of the lake: whole layers, and the tables that a project declares.
PLACES = ("bronze", "silver/orders", "gold/revenue", "silver/quarantine", "silver", "gold")


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["parquet", "delta", "iceberg"], indirect=True)
def test_twenty_random_damages_are_repaired(
    declared: Lake, fill: Fill, traffic: Any, land: Any, gild: Any, check: Check, dsn: str
) -> None:
    chance = random.Random(20)
    fill()
    for number in range(5):
        traffic.done("orders", 5)
        traffic.done("orders", 2, {"n": "not a number"})
        land(declared)
        gild(declared)
        places = [PLACES[(4 * number + place) % len(PLACES)] for place in range(4)]
        found_and_repaired(declared, harm(declared, chance, places), check, dsn)
    assert declared.frame(SILVER_QUARANTINE).count() == 10
    assert declared.frame(declared.table("silver/orders")).count() == 65
    assert declared.frame(declared.table("gold/revenue")).groupBy().sum("orders").first()[0] == 65


def ruin_all(lake: Lake, table: LakeTable, pattern: str) -> None:
    for file in place(lake, table.path).glob(pattern):
        file.write_bytes(file.read_bytes()[:20])


def delete_newest(lake: Lake, table: LakeTable, pattern: str) -> None:
    max(place(lake, table.path).glob(pattern)).unlink()


def delete_all(lake: Lake, table: LakeTable, pattern: str) -> None:
    for file in place(lake, table.path).glob(pattern):
        file.unlink()


@pytest.mark.parametrize(
    "harm",
    [
        ruin_all,
        pytest.param(delete_newest, marks=pytest.mark.slow),
        pytest.param(delete_all, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "lake", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)], indirect=True
)
def test_what_other_programs_read_is_checked_and_repaired_too(
    harm: Any, traffic: Any, lake: Lake, land: Any, gild: Any, dsn: str
) -> None:
    for _ in range(2):
        traffic.done("orders", 5)
        land(lake)
    gild(lake)  # the last step is published again by the next process
    pattern = {"delta": "_delta_log/*.json", "iceberg": "metadata/*.json"}[lake.about.format]
    harm(lake, BRONZE_HISTORY, pattern)
    reason = lake.format.difference(BRONZE_HISTORY, lake.state())
    assert reason is not None
    done = repair(Lake.open(lake.storage.root, lake.spark, dsn=dsn), dsn)
    assert [(each.path, each.reason) for each in done.damaged] == [(BRONZE_HISTORY.path, reason)]
    assert lake.format.difference(BRONZE_HISTORY, lake.state()) is None
    traffic.done("orders", 5)
    land(lake)
    assert lake.format.difference(BRONZE_HISTORY, lake.state()) is None


def test_an_error_names_the_damaged_file_and_the_way_out(
    filled: Lake, traffic: Any, land: Any
) -> None:
    file = filled.state().of(GOLD_QUEUE_DAY)[0]
    place(filled, file.path).write_bytes(b"")
    traffic.done("orders", 5)
    land(filled)
    with pytest.raises(DamagedFileError) as caught:
        refresh(filled)
    assert caught.value.path == file.path
    assert str(caught.value).startswith(f"{file.path} has 0 bytes instead of {file.bytes:,}")
    assert "Run `penstock lake repair`" in str(caught.value)


def test_a_run_repairs_what_it_finds_damaged_and_goes_on(
    filled: Lake, traffic: Any, registry: Any, check: Check, sql: Any, dsn: str
) -> None:
    for table in TABLES.values():
        if table.layer != "bronze":
            for file in filled.state().of(table):
                truncate(place(filled, file.path), random.Random(1))
    traffic.done("orders", 5)
    run = Run(filled, registry, {"dsn": dsn})
    run.begin()
    totals = run.once()
    run.close()
    assert (totals.landed_rows, totals.lost_rows) == (5, 0)
    assert totals.repaired_files > 4
    assert check(filled).agrees
    assert sql("select sum(finished)::int from penstock.gold_queue_day")[0][0] == 56


def test_what_postgresql_dropped_comes_back_from_silver(
    filled: Lake, check: Check, sql: Any, dsn: str
) -> None:
    sql("delete from penstock.history_log returning 1")
    file = filled.state().of(BRONZE_HISTORY)[0]
    place(filled, file.path).unlink()
    rows = filled.frame(SILVER_MESSAGES).count()
    done = repair(filled, dsn)
    assert (done.refetched, done.restored, done.lost) == (0, file.rows, [])
    assert filled.frame(BRONZE_HISTORY).count() == rows
    rebuild(filled)
    assert filled.frame(SILVER_MESSAGES).count() == rows


@pytest.mark.parametrize("ruin", [truncate, pytest.param(delete, marks=pytest.mark.slow)])
def test_messages_that_are_nowhere_any_more_are_listed(
    ruin: Any, traffic: Any, lake: Lake, land: Any, gild: Any, check: Check, sql: Any, dsn: str
) -> None:
    traffic.done("orders", 5)
    land(lake)
    gild(lake)
    lost = traffic.done("orders", 3)
    land(lake)
    (pending,) = lake.state().pending
    sql("delete from penstock.history_log returning 1")
    ruin(place(lake, pending), random.Random(3))
    done = repair(lake, dsn)
    (found,) = done.lost
    assert (found.table, found.queue, found.rows) == (BRONZE_HISTORY.path, "orders", 3)
    assert found.ids == tuple(lost)
    assert find_damage(lake) == []
    assert lake.frame(SILVER_MESSAGES).count() == 5


def test_lost_ids_are_told_from_those_of_unfinished_messages_and_of_other_queues(
    lake: Lake, client: Any, land: Any, sql: Any, dsn: str
) -> None:
    for queue in ("orders", "bills"):
        client.create_queue(queue)
    lost = []
    for number in range(4):
        lost.append(client.enqueue("orders", number))
        client.enqueue("bills", number)
        client.enqueue("orders", number, delay=3600)
    for queue in ("orders", "bills"):
        client.ack_many(client.claim(queue, 3))
    land(lake)
    (pending,) = (path for path in lake.state().pending if "queue=orders" in path)
    sql("delete from penstock.history_log")
    client.ack_many(client.claim("bills", 1))
    place(lake, pending).unlink()
    (found,) = repair(lake, dsn).lost
    assert (found.queue, found.rows, found.ids) == ("orders", 3, tuple(lost[:3]))


def test_lost_ids_are_read_from_a_damaged_file_of_any_file_system(
    lake: Lake, traffic: Any, land: Any, sql: Any, dsn: str, root: str
) -> None:
    lost = traffic.done("orders", 2)
    sql("select nextval('penstock.position') from generate_series(1, 20)")
    lost += traffic.done("orders", 2)
    land(lake)
    (pending,) = lake.state().pending
    sql("delete from penstock.history_log")
    ruin_column(place(lake, pending), "payload")
    through_spark = HadoopStorage(lake.spark, f"file://{root}")
    (found,) = repair(Lake(through_spark, lake.about, lake.spark), dsn).lost
    assert (found.rows, found.ids) == (4, tuple(lost))


def ruin_column(file: Path, name: str) -> None:
    content = bytearray(file.read_bytes())
    group = pq.ParquetFile(file).metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    (chunk,) = (each for each in chunks if each.path_in_schema == name)
    for place in range(chunk.data_page_offset, chunk.data_page_offset + 8):
        content[place] ^= 0xFF
    file.write_bytes(content)


def test_verify_names_the_rows_that_differ(filled: Lake, registry: Any, sql: Any, dsn: str) -> None:
    ((id,),) = sql(
        "update penstock.history_log set worker = 'x' where id ="
        " (select min(id) from penstock.history_log where queue = 'bills') returning id"
    )
    parts: list[tuple[str, int, int]] = []
    found = verify(filled, registry, Service("local", dsn), lambda *part: parts.append(part))
    assert parts[0][:2] == ("files", 0)
    assert [part for part, _, _ in parts[1:]] == [
        *(table.path for table in TABLES.values() if table != SILVER_QUARANTINE),
        "published gold",
    ]
    assert found.damaged == []
    (wrong,) = [each for each in found.compared if not each.agrees]
    assert (wrong.table, wrong.against, wrong.queue) == ("bronze/history", "postgresql", "bills")
    (row,) = wrong.differing
    assert row.startswith(f"id={id} ")


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_the_commands_find_name_and_repair_damage_in_every_layer(
    filled: Lake, cli: Cli, registry: Any, sql: Any, tmp_path: Path
) -> None:
    publish(filled, registry)
    file, *others = (
        filled.state().of(t)[0] for t in (GOLD_QUEUE_DAY, BRONZE_HISTORY, SILVER_MESSAGES)
    )
    for damaged, ruin in zip((file, *others), (delete, flip, truncate), strict=True):
        ruin(place(filled, damaged.path), random.Random(19))
    metrics = tmp_path / "verify.prom"
    code, out, err = cli("lake", "verify", "--metrics-file", metrics)
    assert (code, err) == (9, "")
    assert 'command_succeeded{lake="test",command="verify"} 0' in metrics.read_text()
    assert f"damaged: {file.path} is missing" in out
    assert out.count("damaged: ") == 3
    assert all(f"damaged: {other.path}" in out for other in others)
    code, out, _ = cli("lake", "repair")
    assert code == 0
    assert "no message is lost" in out
    assert cli("lake", "repair")[1] == "no file is damaged\n"
    sql("update penstock.queue_day set finished = 0 returning 1")
    sql(
        "insert into penstock.queue_day select (jsonb_populate_record(q,"
        ' \'{"queue": "gone"}\')).* from penstock.queue_day q limit 1 returning 1'
    )
    sql("delete from penstock.error_day")
    sql("update penstock.worker_minute set worker = 'w9' where worker = 'w2'")
    code, out, _ = cli("--json", "lake", "verify")
    wrong = [each for each in json.loads(out)["compared"] if not each["agrees"]]
    assert (code, {(each["against"], each["day"]) for each in wrong}) == (9, {("gold", file.day)})
    assert [(each["table"], each["queue"], each["found"]["rows"]) for each in wrong] == [
        ("penstock.gold_queue_day", "bills", 1),
        ("penstock.gold_queue_day", "gone", 1),
        ("penstock.gold_queue_day", "mail", 1),
        ("penstock.gold_queue_day", "orders", 1),
        ("penstock.gold_error_day", "mail", 0),
        ("penstock.gold_worker_minute", "mail", 1),
    ]
    assert wrong[1]["differing"] == ["queue=gone"]
    code, out, _ = cli("--json", "lake", "rebuild", "--table", "gold/queue_day")
    assert (code, json.loads(out)["tables"]) == (0, ["gold/queue_day"])
    assert sql("select sum(finished)::int from penstock.queue_day") == [(51,)]
    sql("delete from penstock.error_day")
    code, out, _ = cli("lake", "repair")
    assert (code, "PostgreSQL's gold differed: 1 rows published again" in out) == (0, True)
    assert sql("select sum(retries)::int from penstock.error_day") == [(2,)]
    code, out, _ = cli("--json", "lake", "rebuild", "--since", file.day, "--until", file.day)
    assert json.loads(out)["days"] == [file.day]
    assert cli("lake", "verify")[0] == 0
    table = DeltaTable(filled.storage.address(BRONZE_HISTORY.path))
    assert table.to_pyarrow_table().num_rows == 51
    code, _, err = cli("lake", "rebuild", "--table", "bronze")
    assert code == 2
    assert "bronze is not a table that can be rebuilt" in err
    code, _, err = cli("lake", "rebuild", "--since", "2026-01-02", "--until", "2026-01-01")
    assert (code, "2026-01-01, is before the first day, 2026-01-02" in err) == (2, True)
