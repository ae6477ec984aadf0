"""`penstock bench` in its shortest form. What it measures is never asserted: machines differ."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from penstock.cli.program import penstock
from penstock.db.migrations import Migrator
from penstock.sql.expand import Expander
from penstock_benchmarks import wire
from penstock_benchmarks.ablation import MECHANISMS, SCENARIOS, install_sources
from penstock_benchmarks.commit import chosen_parts
from penstock_benchmarks.commit_found import Delays
from penstock_benchmarks.comparison import Comparison, ends
from penstock_benchmarks.engine import contests, schedule
from penstock_benchmarks.options import Options
from penstock_benchmarks.pin import Pin, pinned
from penstock_benchmarks.steady import Phase, Plan

ENGINE = {
    *("cycle_1", "cycle_10", "cycle_100", "cycle_1_sync", "cycle_10_sync", "cycle_100_sync"),
    *("enqueue_1", "enqueue_10", "enqueue_100", "history_on_over_off"),
}
STEADY = {
    *("pinned_reader", "pinned_xid", "last_over_first_reader", "last_over_first_xid"),
    "plain_pinned_reader",
}
DEPTH = {"ready_1m", "scheduled_1m", "leased_10k"}
WORKER = {
    *("completions_over_cycle_64", "pickup_p50_ms", "pickup_p99_ms"),
    *("idle_queries_per_second", "enqueue_wakeups_on_over_off"),
}
CONTRACTS = {
    *("pgmq_cycle", "pgmq_cycle_by_one", "pgmq_cycle_pinned", "pgmq_cycle_scheduled_1m"),
    "mdb_claim_over_native",
}
HTTP = {
    *("enqueue_1_over_static", "dequeue_ack_1_over_static", "batch_100_over_sql"),
    *("long_poll_p99_ms", "long_poll_idle_queries_per_second"),
}
COMMIT = {
    *("txn_50ms_p50_ms", "txn_50ms_p99_ms", "txn_300ms_p99_ms", "txn_5s_p99_ms"),
    *("slow_commit_p99_over_plain", "sql_loop_p99_over_plain", "rescans_that_found"),
    *("metrics_over_pgmq", "count_over_pgmq", "cold_claim_over_pgmq", "crowd_64_over_pgmq"),
    *("depth_limit_over_free", "group_over_free", "drain_p99_ms", "stats_over_plain"),
    "long_poll_p99_over_plain",
    *("cold_enqueue_over_pgmq", "cold_ack_over_pgmq", "session_memory_mb", "deadlocks"),
}
# These may be zero, and the last two may not be measurable here.
MAY_BE_NOTHING = {"deadlocks", "rescans_that_found", "session_memory_mb"}
WAL = {"wal_bytes", "disk_bytes", "plain_wal_bytes", "wal_64k_over_payload"}

TASKS = {
    *("typed_over_plain", "results_over_plain", "typed_cpu_over_plain", "results_cpu_over_plain"),
    *("result_latency_p50_ms", "result_latency_p99_ms", "batch_over_unbatched"),
}
LIMITS = {f"limit_{limit}_workers_{n}" for limit in (1, 1000) for n in (1, 4)}
COMMIT_SHORT = {"metrics_over_pgmq", "cold_claim_over_pgmq", "cold_ack_over_pgmq", "deadlocks"}
# Seconds enough that every window has some cycles in it, even next to other tests. Those that are
# marked slow take 15 seconds or more.
SHORTEST = [
    pytest.param(["engine", "--seconds", "8", "--clients", "2"], ENGINE, id="engine"),
    pytest.param(
        ["engine", "--seconds", "1", "--clients", "2", "--only", "cycle_1", "--plain-order", "id"],
        {"cycle_1"},
        id="engine, plain table by id",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        ["steady", "--seconds", "4", "--clients", "2"], STEADY, id="steady", marks=pytest.mark.slow
    ),
    pytest.param(["depth", "--seconds", "0.4", "--messages", "1000"], DEPTH, id="depth"),
    pytest.param(["wal", "--seconds", "0.8", "--messages", "1000"], WAL, id="wal"),
    pytest.param(
        ["worker", "--seconds", "4", "--clients", "2"], WORKER, id="worker", marks=pytest.mark.slow
    ),
    pytest.param(["tasks", "--seconds", "1", "--messages", "300"], TASKS, id="tasks"),
    pytest.param(["limits", "--seconds", "8"], LIMITS, id="limits", marks=pytest.mark.slow),
    pytest.param(
        ["http", "--seconds", "6", "--clients", "2", "--consumers", "20"], HTTP, id="http"
    ),
    pytest.param(
        ["contracts", "--seconds", "4", "--clients", "2", "--messages", "200"],
        CONTRACTS,
        id="contracts",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        ["commit", "--seconds", "4", *(f"--only={name}" for name in sorted(COMMIT_SHORT))],
        COMMIT_SHORT,
        id="commit, some figures",
    ),
    pytest.param(["commit", "--seconds", "20"], COMMIT, id="commit", marks=pytest.mark.slow),
]
PEERS = {
    "limits": "measured / limit",
    "tasks": "plain / task",
    "http": "compared with",
    "worker": "bare cycle",
    "contracts": "PGMQ's shape",
    "commit": "PGMQ's shape",
}


def measure(dsn: str, arguments: list[str], file: Path) -> dict[str, Any]:
    command = [*arguments, "--dsn", dsn, "--json", str(file)]
    result = CliRunner().invoke(penstock, ["bench", *command], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert PEERS.get(arguments[0], "plain table") in result.stdout
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def left_behind(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        schemas = connection.execute(
            "select nspname from pg_namespace where nspname in ('penstock_bench', 'pgmq')"
        ).fetchall()
        traces = connection.execute(
            "select name from penstock.queues where starts_with(name, 'bench-') "
            "union all select queue from penstock.messages where starts_with(queue, 'bench-') "
            "union all select queue from penstock.history where starts_with(queue, 'bench-')"
        ).fetchall()
        return schemas + traces


@pytest.mark.parametrize(("arguments", "figures"), SHORTEST)
def test_each_benchmark_reports_its_figures_and_leaves_nothing_behind(
    arguments: list[str], figures: set[str], dsn: str, tmp_path: Path
) -> None:
    found = measure(dsn, arguments, tmp_path / "found.json")
    assert figures <= set(found["figures"])
    idle = {name for name in figures if "idle_queries" in name}  # none, in so short a time
    idle |= figures & MAY_BE_NOTHING
    assert all((found["figures"][name] or 0) >= 0 for name in idle)
    assert all(found["figures"][name] > 0 for name in figures - idle)
    assert found["samples"]
    assert found["server"]["settings"]["fsync"]
    assert {"cpu", "cpus", "memory_bytes"} <= set(found["machine"])
    assert {"penstock", "python", "psycopg"} <= set(found["versions"])
    assert found["started_at"] <= found["finished_at"]
    assert left_behind(dsn) == []


def test_a_database_without_the_schema_gets_it_only_for_the_time_of_the_benchmark(
    empty_dsn: str, tmp_path: Path
) -> None:
    measure(empty_dsn, ["wal", "--seconds", "0.1", "--messages", "100"], tmp_path / "found.json")
    with psycopg.connect(empty_dsn) as connection:
        found = connection.execute(
            "select nspname from pg_namespace where starts_with(nspname, 'penstock')"
        )
        assert found.fetchall() == []


def test_ctrl_c_ends_it_and_leaves_nothing_behind(dsn: str) -> None:
    command = [sys.executable, "-m", "penstock.cli", "bench", "engine", "--dsn", dsn]
    command += ["--seconds", "100"]  # so that the plain table has its turn soon
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with psycopg.connect(dsn, autocommit=True) as connection:
        until = monotonic() + 60
        # The plain table has messages only once the clients are running.
        while running.poll() is None and monotonic() < until:
            if _has_messages(connection):
                break
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert left_behind(dsn) == []


def _has_messages(connection: psycopg.Connection[Any]) -> bool:
    if connection.execute("select to_regclass('penstock_bench.message')").fetchone() == (None,):
        return False
    try:
        found = connection.execute("select last_value > 1 from penstock_bench.message_id_seq")
    except psycopg.errors.UndefinedTable:
        return False
    return found.fetchone() == (True,)


def test_a_second_benchmark_in_the_same_database_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended('penstock bench', 0))")
        result = CliRunner().invoke(penstock, ["bench", "wal", "--seconds", "0.1", "--dsn", dsn])
    assert "another penstock bench is running" in str(result.exception)


def test_a_schema_of_the_same_name_that_is_not_ours_is_left_alone(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema penstock_bench")
        result = CliRunner().invoke(penstock, ["bench", "wal", "--seconds", "0.1", "--dsn", dsn])
        assert "did not make" in str(result.exception)
        found = connection.execute("select to_regnamespace('penstock_bench') is not null")
        assert found.fetchone() == (True,)


def test_an_unknown_figure_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(penstock, ["bench", "engine", "--only", "cycle_7"])
    assert result.exit_code == 2
    assert "cycle_100_sync" in result.output


@pytest.mark.parametrize("pin", list(Pin))
def test_a_pin_holds_the_horizon_until_it_is_let_go(dsn: str, pin: Pin) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema penstock_bench")
        connection.execute("create table penstock_bench.bystander (id integer)")

        def held() -> list[Any]:
            """What sessions of this database hold; those of other tests hold theirs."""
            connection.execute("select pg_current_xact_id()")
            return connection.execute(
                "select coalesce(backend_xid, backend_xmin)::text from pg_stat_activity "
                "where state = 'idle in transaction' and datname = current_database() "
                "and coalesce(backend_xid, backend_xmin) is not null"
            ).fetchall()

        with pinned(dsn, pin):
            before = held()
            assert len(before) == 1
            assert held() == before
        assert held() == []


def test_the_full_form_of_steady_goes_on_until_enough_messages_have_passed() -> None:
    plan = Plan.of(Options(messages=1000))
    phase = Phase(Pin.READER)
    assert plan.wanted == 1000
    assert not plan.is_done(phase)
    assert Plan.of(Options(messages=1000, seconds=1)).wanted == 0


def test_windows_share_the_seconds_in_an_even_number_of_rounds() -> None:
    for contest in contests():
        for seconds in (0.1, 7.0, 60.0, 180.0):
            plan = schedule(contest, seconds)
            assert plan.rounds % 2 == 0
            assert plan.uncounted < plan.windows
            assert 2 * plan.rounds * plan.windows * plan.seconds == pytest.approx(seconds)


def test_a_ratio_is_the_median_of_the_ratios_of_neighbours() -> None:
    # The machine was ten times slower in the second pair: both were, so it does not show.
    assert Comparison((200.0, 20.0, 220.0), (100.0, 10.0, 100.0)).ratio == 2.0
    assert Comparison((1.0,), (0.0,)).ratio is None
    assert ends([1, 2, 3, 4, 5, 6, 7, 8]) == ([7, 8], [1, 2])
    assert ends([5]) == ([5], [5])


def test_a_message_that_nobody_received_counts_with_the_time_it_has_waited() -> None:
    now = monotonic()
    delays = Delays().add([(1, now - 5), (2, now - 5), (3, now)], {1: now - 4, 3: now - 1})
    assert delays.missing == 1
    assert delays.values[0] == pytest.approx(1000)
    assert delays.values[1] >= 5000
    assert delays.values[2] == 0  # claimed before its producer heard of the commit


def test_only_the_parts_of_the_chosen_figures_are_measured() -> None:
    chosen = chosen_parts(Options(only=("count_over_pgmq", "txn_60s_p99_ms"), seconds=60))
    assert set(chosen) == {"reads", "txn_60s"}
    assert sum(chosen.values()) == pytest.approx(60)
    assert "txn_60s" not in chosen_parts(Options())
    assert "txn_60s" in chosen_parts(Options(long=True))
    assert "slow_commit" in chosen_parts(Options(only=("rescans_that_found",)))


def test_parameters_arrive_as_postgresql_reads_them(dsn: str) -> None:
    payload = wire.json_payload(200, 7)
    assert len(payload) == 200
    payloads = wire.array(wire.JSONB_OID, [wire.jsonb(payload), wire.jsonb(b"null")])
    ids = wire.int8_array([(5).to_bytes(8), (-3).to_bytes(8, signed=True)])
    with psycopg.connect(dsn) as connection:
        result = connection.pgconn.exec_params(
            b"select $1::jsonb[]::text[], $2::bigint[], $3::integer, $4::jsonb",
            [payloads, ids, wire.int4(42), wire.jsonb(payload)],
            param_formats=[1, 1, 1, 1],
        )
        row = [result.get_value(0, column) for column in range(4)]
    assert row[1:3] == [b"{5,-3}", b"42"]
    assert json.loads(row[3] or b"")["message"] == 7
    assert (row[0] or b"").endswith(b',"null"}')


@pytest.fixture(scope="module")
def original() -> tuple[str, str]:
    """The functions and the schema of the engine."""
    return Expander().folder("functions"), Expander().folder("schema")


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_each_mechanism_can_be_left_out(
    mechanism: Any, tmp_path: Path, original: tuple[str, str]
) -> None:
    changed = install_sources(tmp_path / "sql", mechanism)
    functions = (changed / "generated" / "functions.sql").read_text("utf-8")
    schema = (changed / "migrations" / "0001_schema.sql").read_text("utf-8")
    assert ((functions, schema) != original) is (mechanism.setting is None)
    assert set(mechanism.scenarios) <= set(SCENARIOS)


def test_an_engine_with_fewer_segments_works(make_database: Any, tmp_path: Path) -> None:
    [five] = [each for each in MECHANISMS if each.name.startswith("nine segments")]
    with psycopg.connect(make_database("template0"), autocommit=True) as connection:
        Migrator(connection, install_sources(tmp_path / "sql", five)).up()
        connection.execute("select penstock.create_queue('work')")
        connection.execute("select penstock.enqueue('work', '1')")
        tables = "select count(*) from pg_class where relname ~ '^lane_[0-9]$'"
        assert connection.execute(tables).fetchone() == (5,)
        lease = connection.execute("select id, token from penstock.claim('work')").fetchone()
        assert connection.execute("select penstock.ack(%s, %s)", lease).fetchone()
