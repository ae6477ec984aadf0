"""Erasure: what is forgotten is found nowhere, and everything else still agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.lake.pipeline.conftest import Cli
from tests.lake.searching import found_in_files, found_in_server_files, found_in_tables

from penstock.lake.layout import BRONZE_HISTORY, SILVER_MESSAGES, STAGING
from penstock.lake.maintenance.forget import forget, matches
from penstock.lake.maintenance.verify import verify
from penstock.spark.options import Service

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

# Other tests use the same server, whose files are searched.
SECRET = f"ada-lovelace-{uuid4().hex}"
WHERE = ("--where", f"payload LIKE '%{SECRET}%'")


@pytest.mark.parametrize(
    "lake",
    ["delta", *(pytest.param(name, marks=pytest.mark.slow) for name in ("iceberg", "parquet"))],
    indirect=True,
)
def test_what_is_forgotten_is_found_nowhere(
    lake: Any, traffic: Any, client: Any, registry: Any, cli: Cli, sql: Any, dsn: str, root: str
) -> None:
    traffic.done("orders", 20, {"customer": "grace"})
    traffic.done("orders", 3, {"customer": SECRET})
    client.create_queue("mail")
    headers = {"customer": SECRET}
    client.enqueue("mail", {"to": SECRET}, key=SECRET, headers=headers, max_attempts=3)
    (lease,) = client.claim("mail", 1)
    client.nack(lease, f"no such user {SECRET}", delay=0)
    (lease,) = client.claim("mail", 1)
    client.ack(lease)
    assert cli("lake", "run", "--once")[0] == 0
    sql(
        "insert into penstock.result select id, to_jsonb(%s::text), finished_at, 'infinity'"
        " from penstock.history_log where queue = 'mail' returning id",
        SECRET,
    )
    sql("analyze")
    assert found_in_files(Path(root), SECRET)
    assert "pg_statistic" in found_in_tables(sql, SECRET)
    code, out, _ = cli("--json", "lake", "forget", *WHERE, "--dry-run")
    nothing_else = {"not_landed": 0, "unfinished": {}}
    assert (code, json.loads(out)) == (0, {"matched": 4, "dry_run": True, **nothing_else})
    assert found_in_files(Path(root), SECRET)

    code, out, err = cli("--json", "lake", "forget", *WHERE, "--yes")
    assert (code, err) == (0, "")
    done = json.loads(out)
    assert (done["messages"], done["lake_rows"], done["postgres_rows"]) == (4, 10, 6)
    assert found_in_files(Path(root), SECRET) == []
    assert found_in_tables(sql, SECRET) == set()
    after = verify(lake, registry, Service("local", dsn))
    assert after.agrees, after
    assert lake.frame(BRONZE_HISTORY).count() == 20
    (record,) = lake.state().erasures
    assert record["rows"] == 10
    assert sql("select sum(finished)::int from penstock.gold_queue_day") == [(20,)]
    if lake.about.format == "delta":
        from deltalake import DeltaTable

        address = lake.storage.address(BRONZE_HISTORY.path)
        assert DeltaTable(address).to_pyarrow_table().num_rows == 20
        with pytest.raises(Exception, match=r"(?i)not found|no such file"):
            DeltaTable(address, version=0).to_pyarrow_table()
    if lake.about.format == "iceberg":
        from pyiceberg.table import StaticTable

        (current,) = lake.format._load(BRONZE_HISTORY).metadata.snapshots
        metadata = list(Path(root, BRONZE_HISTORY.path, "metadata").glob("*.json"))
        for table in map(StaticTable.from_metadata, map(str, metadata)):
            for snapshot in table.metadata.snapshots:
                if snapshot.snapshot_id != current.snapshot_id:
                    with pytest.raises(FileNotFoundError):
                        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert len(metadata) > 1
        assert lake.format._load(BRONZE_HISTORY).scan().count() == 20
    client.enqueue("mail", {"to": SECRET}, max_attempts=1)
    client.nack(client.claim("mail", 1)[0], "no such user", delay=0)
    client.enqueue_many("mail", [{"to": SECRET}] * 2 + [{"to": "grace"}])
    where = f"queue = 'mail' AND day > '2020-01-01' AND {WHERE[1]}"
    again = json.loads(cli("--json", "lake", "forget", "--where", where, "--dry-run")[1])
    assert (again["matched"], again["unfinished"]) == (0, {"dead": 1, "ready": 2})


def test_a_condition_that_changes_between_evaluations_is_refused(
    lake: Any, traffic: Any, cli: Cli
) -> None:
    traffic.done("orders", 3)
    assert cli("lake", "run", "--once")[0] == 0
    for where in ("rand() < 0.5", "uuid() > 'a'"):
        code, out, err = cli("lake", "forget", "--where", where, "--yes")
        assert (code, out) == (2, "")
        assert "the condition has another result each time it is evaluated" in err
    where = "finished_at < now() - interval '1 day'"
    code, out, _ = cli("--json", "lake", "forget", "--where", where, "--dry-run")
    assert (code, json.loads(out)["matched"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta", "iceberg", "parquet"], indirect=True)
def test_no_byte_is_left_after_the_tables_were_rewritten(
    lake: Any, traffic: Any, client: Any, registry: Any, cli: Cli, sql: Any, root: str
) -> None:
    """Apart from the WAL, which docs/reference/lake.md names."""
    traffic.done("orders", 20, {"customer": SECRET})
    traffic.done("orders", 20, SECRET.encode())
    traffic.done("orders", 20, b"x" * 20_000 + SECRET.encode())
    traffic.done("orders", 20, {"customer": "grace"})
    client.create_queue("mail", max_attempts=1)
    for number in range(20):
        client.enqueue("mail", 1, key=f"{SECRET}-{number}", headers={"customer": SECRET})
    for lease in client.claim("mail", 100):
        client.nack(lease, f"no such user {SECRET}", delay=0)
    sql("analyze")
    client.redrive("mail")
    client.ack_many(client.claim("mail", 100))
    assert cli("lake", "run", "--once")[0] == 0
    sql("analyze")
    assert {"history_log_0", "pg_statistic"} <= found_in_tables(sql, SECRET)
    assert found_in_server_files(sql, SECRET)
    columns = ("payload", "CAST(payload_bytes AS STRING)", "key")
    where = " OR ".join(f"{column} LIKE '%{SECRET}%'" for column in columns)
    code, out, err = cli("--json", "lake", "forget", "--where", where, "--rewrite", "--yes")
    assert (code, err) == (0, "")
    done = json.loads(out)
    assert (done["messages"], done["unfinished"]) == (80, {})
    assert (done["rewritten"]["kept"], done["rewritten"]["checkpoint"]) == ({}, True)
    assert found_in_files(Path(root), SECRET) == []
    assert found_in_tables(sql, SECRET) == set()
    assert found_in_server_files(sql, SECRET) == []


@pytest.mark.slow
def test_a_run_may_land_and_abandon_a_step_meanwhile(
    lake: Any, traffic: Any, land: Any, gild: Any, registry: Any, dsn: str, root: str
) -> None:
    traffic.done("orders", 3, {"customer": SECRET})
    land(lake)
    gild(lake)
    found = matches(lake, WHERE[1]).persist()
    assert found.count() == 3
    traffic.done("orders", 2)
    land(lake)
    abandoned = Path(root, STAGING, "compaction", "part.parquet")
    abandoned.parent.mkdir(parents=True)
    abandoned.write_text(SECRET)
    done = forget(lake, registry, found, WHERE[1])
    assert (done.messages, done.lake_rows, done.postgres_rows) == (3, 6, 3)
    assert found_in_files(Path(root), SECRET) == []
    assert lake.frame(SILVER_MESSAGES).count() == 2
    assert verify(lake, registry, Service("local", dsn)).agrees
