"""What may be wrong: one clear line, nothing half written, and the next run continues."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.lake.pipeline.conftest import Cli

from penstock.errors import ConfigurationError
from penstock.lake.layout import BRONZE_HISTORY
from penstock.spark.error_messages import TaskFailedError, explain

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def refused(answer: tuple[int, str, str], code: int, words: str) -> None:
    """One line on stderr, with these words, and nothing on stdout."""
    assert answer[0] == code, answer
    assert answer[1] == ""
    assert len(answer[2].splitlines()) == 1, answer[2]
    assert words in answer[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--conf", "memory=1g"], "is not a setting of Spark; write it as spark.name=value"),
        (["--every", "soon"], "is not a duration"),
        (["--max-rows", "10"], "is not in the range 1000<=x<=100000000"),
        (["--format", "orc"], "is not one of 'delta', 'iceberg', 'parquet'"),
        (["--path", ""], "the path of the lake is empty"),
        (["--path", "file://elsewhere/lake"], "names another machine, elsewhere"),
        (["--path", "viewfs://x/lake", "--format", "delta"], "the format delta cannot be at"),
        (["--format", "parquet", "--catalog", "https://x"], "the format parquet has no catalog"),
        (["--format", "iceberg", "--catalog", "x"], "x is not the address of a REST catalog"),
        (["--path", "nowhere://x/lake"], "Spark cannot reach nowhere://x/lake: No FileSystem"),
        (["--keep-bronze", "-3d"], "is not a duration"),
        (["--frmat", "delta"], "no such option"),
    ],
)
def test_wrong_options(cli: Cli, options: list[str], words: str, root: str) -> None:
    refused(cli("lake", "run", "--once", *options), 2, words)
    assert not Path(root).exists()


def test_no_schema(cli: Cli, empty_dsn: str, monkeypatch: Any, root: str) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", empty_dsn)
    refused(cli("lake", "run", "--once"), 7, "Run `penstock migrate up` on this database.")
    assert not Path(root).exists()


def test_a_schema_that_is_newer(cli: Cli, sql: Any, root: str) -> None:
    sql(
        "insert into penstock.migration (version, name, checksum)"
        " values (999, 'x', 'x') returning 1"
    )
    refused(cli("lake", "run", "--once"), 7, "has schema version 999, this Penstock knows")
    assert not Path(root).exists()


def test_wrong_credentials(cli: Cli, dsn: str, monkeypatch: Any, root: str) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", make_conninfo(dsn, user="unknown", password="guess"))
    answer = cli("lake", "run", "--once")
    refused(answer, 8, 'role "unknown" does not exist')
    assert "guess" not in answer[2]
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://127.0.0.1:1/x?connect_timeout=2")
    refused(cli("lake", "run", "--once"), 6, "the database is not available")
    assert not Path(root).exists()


def test_no_lake_there(cli: Cli, root: str) -> None:
    for command in (["status"], ["verify"], ["compact"], ["query", "SELECT 1"]):
        refused(cli("lake", *command), 9, f"there is no lake at {root}")


def test_a_path_that_is_a_file_or_may_not_be_written(cli: Cli, root: str) -> None:
    Path(root).write_text("hello")
    refused(cli("lake", "run", "--once"), 9, f"the lake at {root} cannot be used")
    assert Path(root).read_text() == "hello"


@pytest.mark.slow
def test_a_lake_of_another_database(
    cli: Cli,
    traffic: Any,
    monkeypatch: Any,
    make_database: Callable[[str], str],
    template: str,
    lake: Any,
) -> None:
    traffic.done("orders", 10)
    assert cli("lake", "run", "--once")[0] == 0
    other = make_database(template)
    monkeypatch.setenv("PENSTOCK_DSN", other)
    with psycopg.connect(other) as connection:
        connection.execute("select penstock.create_queue('orders')")
        connection.execute("select penstock.enqueue('orders', '1')")
        connection.execute("select penstock.ack(id, token) from penstock.claim('orders')")
    refused(cli("lake", "run", "--once"), 9, "was filled from another database")
    assert lake.frame(BRONZE_HISTORY).count() == 10
    code, out, err = cli("--json", "lake", "run", "--once", "--begin-anew")
    assert (code, err) == (0, "")
    assert json.loads(out)["landed_rows"] == 1
    assert lake.frame(BRONZE_HISTORY).count() == 11
    assert json.loads(cli("--json", "lake", "verify")[1])["agrees"]


@pytest.fixture
def small_disk(root: str) -> Iterator[Callable[[str], None]]:
    """The lake's directory is a disk of one megabyte; call it with another size."""
    Path(root).mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", root]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("Only root can mount a small disk. Run the tests as root.")
    yield lambda size: subprocess.run(["mount", "-o", f"remount,size={size}", root], check=True)
    subprocess.run(["umount", root], check=True)


@pytest.mark.slow
def test_a_disk_that_is_full(
    cli: Cli, client: Any, small_disk: Callable[[str], None], root: str
) -> None:
    client.create_queue("orders")
    client.enqueue_many("orders", [os.urandom(4000).hex() for _ in range(500)])
    while leases := client.claim("orders", 1000):
        client.ack_many(leases)
    refused(cli("lake", "run", "--once"), 9, f"there is no space left for the lake at {root}")
    assert not list(Path(root, "bronze").rglob("*.parquet"))
    small_disk("64m")
    code, out, err = cli("--json", "lake", "run", "--once")
    assert (code, err) == (0, "")
    assert json.loads(out)["landed_rows"] == 500
    assert json.loads(cli("--json", "lake", "verify")[1])["agrees"]


def test_what_a_task_said_is_told_in_one_line() -> None:
    class PySparkError(Exception):
        __module__ = "pyspark.errors"

    ours = "Traceback\n  File x\npenstock.errors.ConfigurationError: the checkpoint is odd. Do x."
    assert isinstance(explain(PySparkError(ours), "/lake"), ConfigurationError)
    lost = "Job aborted\nCaused by: java.io.IOException: Connection reset by peer\n\tat x"
    found = explain(PySparkError(lost), "/lake")
    assert isinstance(found, TaskFailedError)
    assert "Connection reset by peer" in found.message
    assert found.hint == "Run it again."
    zero = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL (line 1) ==\nn / 0\n^^^^^"
    assert "Correct the rule" in str(explain(PySparkError(zero), "/lake"))
