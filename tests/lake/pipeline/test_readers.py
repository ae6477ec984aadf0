"""Other programs read the tables of a lake and find the rows of PostgreSQL: `make test-readers`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.lake.pipeline.conftest import Traffic
from tests.lake.pipeline.loopback import forwarded

from penstock.lake.lake import Lake
from penstock.lake.layout import BRONZE_HISTORY, SILVER_MESSAGES, LakeTable
from penstock.lake.maintenance.compact import compact
from penstock.lake.storage.iceberg_catalog import sqlalchemy_url

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_TEST_READERS"),
        reason="needs another Spark with its connectors, and DuckDB's extensions: "
        "make test-readers",
    ),
    pytest.mark.timeout(600),
]

READERS = {
    "iceberg": ("pyiceberg", "polars", "duckdb", "spark"),
    "delta": ("delta-rs", "polars", "duckdb", "spark"),
}
PROGRAM = Path(__file__).with_name("lake_readers.py")
PYTHON = Path(sys.prefix) / "readers" / "bin" / "python"
IN_POSTGRES = """
select id, queue, to_char(finished_at at time zone 'UTC', 'YYYY-MM-DD'),
       (extract(epoch from finished_at) * 1000000)::bigint, payload::text
from penstock.history_log
"""


@pytest.mark.parametrize("lake", ["iceberg", "delta"], indirect=True)
def test_each_reader_finds_the_rows_of_postgresql(
    lake: Lake, traffic: Traffic, land: Any, gild: Any, sql: Any, dsn: str
) -> None:
    for number in range(3):
        traffic.done("orders", 20, {"customer": f"c{number}"})
        traffic.fails("mail", "smtp 421", attempts=2)
        land(lake)
        gild(lake)
    assert compact(lake).before > 0
    expected = sorted(sql(IN_POSTGRES))
    assert len(expected) == 63
    for reader in READERS[lake.about.format]:
        for table in (BRONZE_HISTORY, SILVER_MESSAGES):
            assert rows(lake, reader, table, dsn) == expected, (reader, table.path)


def rows(lake: Lake, reader: str, table: LakeTable, dsn: str) -> list[tuple[Any, ...]]:
    parts = conninfo_to_dict(dsn)
    port = parts.get("port") or 5432
    with forwarded(f"{parts['host']}/.s.PGSQL.{port}") as tcp:
        jdbc = (
            f"jdbc:postgresql://127.0.0.1:{tcp}/{parts['dbname']}"
            f"?user={parts.get('user') or 'postgres'}&currentSchema=penstock&gssEncMode=disable"
        )
        address = jdbc if reader == "spark" else sqlalchemy_url(dsn)
        words = [PYTHON, PROGRAM, lake.about.format, reader, lake.storage.root, table.path, address]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return sorted(tuple(row) for row in json.loads(done.stdout.splitlines()[-1]))
