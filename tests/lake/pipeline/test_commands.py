"""`penstock lake`, as a person types it; Spark is the one that the tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Connect
from tests.lake.pipeline.conftest import Cli

from penstock.lake import metrics
from penstock.lake.registry import Registry
from penstock.lake.run import Run

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


@pytest.fixture
def ask(cli: Cli) -> Callable[..., Any]:
    def call(*argv: object) -> Any:
        code, out, err = cli("--json", *argv)
        assert (code, err) == (0, ""), err
        return json.loads(out)

    return call


def test_silver_and_gold_have_a_lag_while_they_are_behind_bronze(
    lake: Any, traffic: Any, registry: Registry, ask: Callable[..., Any], dsn: str
) -> None:
    traffic.done("orders", 5)
    with closing(Run(lake, registry, {"dsn": dsn})) as run:
        run.begin()
        run.land()
        status = ask("lake", "status")
        assert (status["lag_rows"], status["pending_rows"]) == (0, 5)
        lag = status["lag_seconds"]
        assert lag["bronze"] == 0 < min(lag["silver"], lag["gold"])
        text = metrics.text("test", run.totals, registry.lag())
        assert 'lag_seconds{lake="test",layer="bronze"} 0.0\n' in text
        assert 'lag_seconds{lake="test",layer="gold"} 0.0\n' not in text
        run.refresh()
    assert set(ask("lake", "status")["lag_seconds"].values()) == {0}


@pytest.mark.slow
@pytest.mark.usefixtures("one_day")
def test_a_day_with_a_lake(
    traffic: Any, cli: Cli, ask: Callable[..., Any], sql: Any, connect: Connect, tmp_path: Path
) -> None:
    # A slot that is in use is not dropped this time: autovacuum may use it.
    for table in ("history_log_0", "attempt_log_0"):
        connect().execute(f"alter table penstock.{table} set (autovacuum_enabled = off)")
    traffic.done("orders", 120, {"amount": 5})
    traffic.fails("mail", "smtp 421", attempts=2)
    file = tmp_path / "lake.prom"

    first = ask("lake", "run", "--once", "--name", "main", "--metrics-file", file)
    assert (first["landed_rows"], first["batches"], first["silver_rows"]) == (123, 1, 123)
    assert 'penstock_lake_landed_rows_total{lake="main"} 123' in file.read_text()
    assert 'penstock_lake_lag_rows{lake="main"} 0' in file.read_text()
    assert 'penstock_lake_lag_seconds{lake="main",layer="gold"} 0.0' in file.read_text()
    assert ask("lake", "run", "--once")["landed_rows"] == 0

    traffic.done("orders", 5)
    status = ask("lake", "status")
    assert (status["name"], status["registered"], status["lag_rows"]) == ("main", True, 5)
    # Five messages are in no layer: the lag of each is the age of the newest data that it has.
    assert all(status["newest_at"].values())
    assert set(status["lag_seconds"]) == {"bronze", "silver", "gold"}
    rows = {table["table"]: table["rows"] for table in status["tables"]}
    assert (rows["bronze/history"], rows["silver/messages"]) == (121, 121)

    assert ask("lake", "verify")["agrees"]
    code, out, _ = cli("lake", "run", "--once")
    assert code == 0
    assert out.startswith("5 rows landed in ")
    joined = ask("lake", "compact")
    assert joined["joined"] > joined["into"] > 0
    assert ask("lake", "verify")["agrees"]
    found = ask("lake", "query", "SELECT queue, sum(finished) n FROM gold_queue_day GROUP BY 1;")
    assert sorted((row["queue"], row["n"]) for row in found["rows"]) == [
        ("mail", 1),
        ("orders", 125),
    ]

    dropped = ask("lake", "drop-landed", "--all", "--yes")
    assert dropped["slots"] == 1
    assert sql("select count(*) from penstock.history_log") == [(0,)]
    assert ask("lake", "verify")["agrees"]
    traffic.done("orders", 3)
    assert ask("lake", "run", "--once")["landed_rows"] == 3
    assert ask("lake", "verify")["compared"][0]["found"]["rows"] == 3


def test_messages_are_replayed_once_for_a_job(
    traffic: Any, client: Any, ask: Callable[..., Any], cli: Cli
) -> None:
    traffic.done("orders", 20, {"amount": 5})
    traffic.done("orders", 10, {"amount": 500})
    client.create_queue("again")
    ask("lake", "run", "--once")
    large = (
        "--where",
        "parse_json(payload):amount::double > 100",
        "--queue",
        "orders",
        "--into",
        "again",
    )
    dry = ask("lake", "replay", "--job", "j1", *large, "--dry-run")
    assert (dry["matched"], dry["enqueued"]) == (10, 0)
    assert ask("lake", "replay", "--job", "j1", *large, "--max-count", 4, "--yes")["enqueued"] == 4
    assert ask("lake", "replay", "--job", "j1", *large, "--yes")["enqueued"] == 6
    assert ask("lake", "replay", "--job", "j1", *large, "--yes")["enqueued"] == 0
    text = cli("lake", "replay", "--job", "j1", *large, "--yes")[1]
    assert "0 of 10 messages were enqueued. Earlier runs of job j1 have enqueued the others" in text
    leases = client.claim("again", 100)
    assert [lease.payload for lease in leases] == [{"amount": 500}] * 10
    slow = ask("lake", "replay", "--job", "j2", *large, "--per-second", 0.01, "--yes")
    assert slow["enqueued"] == 10
    assert client.stats("again").scheduled == 9
    code, _, err = cli("lake", "replay", "--job", "j3", "--where", "nonsense >", "--dry-run")
    assert code == 2
    assert err.startswith("error: the condition cannot be used: [PARSE_SYNTAX_ERROR] Syntax error")
    code, out, err = cli("lake", "replay", "--job", "j3")
    assert (code, out) == (2, "")
    assert err.startswith("error: no terminal to ask for confirmation: Enqueue copies of up to 30")


def test_a_query_reads_and_nothing_else(traffic: Any, cli: Cli, ask: Any, root: str) -> None:
    traffic.done("orders", 1)
    ask("lake", "run", "--once")
    for statement in (
        "DROP VIEW silver_messages",
        f"INSERT OVERWRITE DIRECTORY '{root}/x' USING parquet SELECT 1",
        "SELECT * FROM nowhere",
        "",
    ):
        code, out, err = cli("lake", "query", statement)
        assert (code, out) == (2, ""), statement
        assert err.startswith("error: the query cannot be run: ")
        assert len(err.splitlines()) == 1
    assert not Path(root, "x").exists()


def test_release(cli: Cli, ask: Any, sql: Any) -> None:
    sql("select penstock.register_lake('old', '/gone', 'parquet')")
    assert ask("lake", "release", "--lake", "old", "--yes")["lake"] == "old"
    code, _, err = cli("lake", "release", "--lake", "old", "--yes")
    assert (code, err) == (1, "error: no lake is called old\n")
    sql("select penstock.spark_attach('etl')")
    assert ask("lake", "release", "--consumer", "etl", "--yes")["returned"] == 0
    code, _, err = cli("lake", "release", "--yes")
    assert code == 2
    assert err.startswith("error: give either --consumer NAME or --lake NAME.")
