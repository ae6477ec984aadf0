"""Erasure: what is forgotten is found nowhere, and everything else still agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.lake.pipeline.conftest import Cli

from penstock.lake.layout import BRONZE_HISTORY
from penstock.lake.maintenance.verify import verify
from penstock.spark.options import Service

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

SECRET = "ada-lovelace-7"
WHERE = ("--where", f"payload LIKE '%{SECRET}%'")
TABLES = "history_log attempt_log queue_minute queue_quarter queue_day error_day worker_minute lake"


def found_in_files(root: Path) -> list[str]:
    """Every file whose bytes, or whose decoded rows, have the secret."""
    found = []
    for file in (each for each in root.rglob("*") if each.is_file()):
        text = file.read_bytes()
        if file.suffix == ".parquet":
            text += str(pq.ParquetFile(file).read().to_pylist()).encode()
        if SECRET.encode() in text:
            found.append(str(file.relative_to(root)))
    return found


@pytest.mark.parametrize(
    "lake",
    ["parquet", "delta", pytest.param("iceberg", marks=pytest.mark.slow)],
    indirect=True,
)
def test_what_is_forgotten_is_found_nowhere(
    lake: Any, traffic: Any, client: Any, registry: Any, cli: Cli, sql: Any, dsn: str, root: str
) -> None:
    traffic.done("orders", 20, {"customer": "grace"})
    traffic.done("orders", 3, {"customer": SECRET})
    assert cli("lake", "run", "--once")[0] == 0
    client.create_queue("mail")
    client.enqueue("mail", {"to": SECRET}, max_attempts=3)
    (lease,) = client.claim("mail", 1)
    client.nack(lease, f"no such user {SECRET}", delay=0)
    (lease,) = client.claim("mail", 1)
    client.ack(lease)
    assert cli("lake", "run", "--once")[0] == 0
    assert found_in_files(Path(root))
    code, out, _ = cli("--json", "lake", "forget", *WHERE, "--dry-run")
    assert (code, json.loads(out)["matched"]) == (0, 4)
    assert found_in_files(Path(root))

    code, out, err = cli("--json", "lake", "forget", *WHERE, "--yes")
    assert (code, err) == (0, "")
    done = json.loads(out)
    assert (done["messages"], done["lake_rows"], done["postgres_rows"]) == (4, 10, 5)
    assert found_in_files(Path(root)) == []
    for table in TABLES.split():
        rows = sql(f"select count(*) from penstock.{table} t where t::text like %s", f"%{SECRET}%")
        assert rows == [(0,)], table
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
    assert json.loads(cli("--json", "lake", "forget", *WHERE, "--yes")[1])["messages"] == 0
