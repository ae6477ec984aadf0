"""Roles that come after the schema, grants that get lost, and how they are put right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.conftest import ask, cli
from tests.conftest import Connect

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migration_plan import CODE_NAME, GRANTS_NAME
from penstock.db.migrations import Migrator

from .conftest import ROLES

__all__ = ["ask", "cli"]

CALLS = {
    "penstock_producer": [
        "select penstock.enqueue('orders', '1')",
        "select pgmq.send('orders', '1')",
    ],
    "penstock_consumer": ["select penstock.claim('orders')", "select pgmq.read('orders', 1, 1)"],
    "penstock_operator": ["select penstock.pause('orders')", "select * from mdb_queue.queues"],
}


@pytest.fixture
def dsn(pgmq_dsn: str) -> str:
    return pgmq_dsn


@pytest.fixture
def bare_server(tmp_path: Path, pg_bin: Path) -> Iterator[EmbeddedPostgres]:
    """A server of this test's own: roles belong to the whole server."""
    with EmbeddedPostgres.start(
        tmp_path / "pg", bin_dir=pg_bin, settings={"fsync": "off"}
    ) as server:
        yield server
    shutil.rmtree(tmp_path / "pg", ignore_errors=True)


def test_roles_created_after_the_schema_get_their_grants(bare_server: EmbeddedPostgres) -> None:
    with psycopg.connect(bare_server.dsn, autocommit=True) as admin:
        admin.execute("create role owner_of_schema login")
        admin.execute("create database app owner owner_of_schema")
        dsn = bare_server.dsn_of("app")
        with psycopg.connect(make_conninfo(dsn, user="owner_of_schema"), autocommit=True) as owner:
            # An owner that may not create roles: the schema comes without them.
            Migrator(owner, contracts=["pgmq"]).up()
            assert owner.execute("select * from penstock.check_grants()").fetchall() == [
                (role, None) for role in ROLES
            ]
            assert Migrator(owner).up() == []
            assert Migrator(owner).status().pending == []
            owner.execute("select pgmq.create('orders')")
            for role in ROLES:
                admin.execute(f"create role {role}")
            assert [step.name for step in Migrator(owner).status().pending] == [GRANTS_NAME]
            assert [step.name for step in Migrator(owner).up()] == [GRANTS_NAME]
            assert owner.execute("select * from penstock.check_grants()").fetchall() == []
            assert Migrator(owner).up() == []
        with psycopg.connect(dsn, autocommit=True) as session:
            for role, statements in CALLS.items():
                session.execute(f"set session authorization {role}")
                for statement in statements:
                    session.execute(statement.encode())


def test_roles_that_were_dropped_come_back(bare_server: EmbeddedPostgres) -> None:
    with psycopg.connect(bare_server.dsn, autocommit=True) as admin:
        assert [step.name for step in Migrator(admin).up()][-1] == CODE_NAME
        admin.execute("drop owned by penstock_consumer")
        admin.execute("drop role penstock_consumer")
        assert [step.name for step in Migrator(admin).up()] == [GRANTS_NAME]
        assert admin.execute("select * from penstock.check_grants()").fetchall() == []


def test_the_script_for_psql_makes_all_grants(empty_dsn: str, connect: Connect) -> None:
    connection = connect(empty_dsn)
    script = Migrator.sql(contracts=["pgmq"]).replace("\\set ON_ERROR_STOP on", "")
    connection.execute(script.encode())
    assert connection.execute("select * from penstock.check_grants()").fetchall() == []


@pytest.mark.parametrize(
    "lost",
    [
        "revoke execute on function penstock.ack from penstock_consumer",
        "revoke usage on schema mdb_queue from penstock_producer",
        "revoke select on penstock.messages from penstock_operator",
        "revoke select (id) on mdb_queue.messages from penstock_producer",
        "revoke usage on schema pgmq from penstock_consumer",
        "grant execute on function penstock._run_deferred to public",
    ],
)
def test_a_grant_that_was_lost_is_reported_and_made_again(
    db: psycopg.Connection[Any], ask: Callable[..., Any], lost: str
) -> None:
    def roles() -> Any:
        return next(each for each in ask("doctor")["checks"] if each["check"] == "roles")

    assert roles()["status"] == "ok"
    db.execute(lost.encode())
    found = roles()
    assert found["status"] == "warning"
    assert "penstock migrate up" in found["advice"]
    _, privilege, *_ = lost.split()
    assert privilege in found["detail"]
    assert [step["name"] for step in ask("migrate", "up")["applied"]] == [GRANTS_NAME]
    assert roles()["status"] == "ok"
    assert ask("migrate", "up")["applied"] == []


def test_doctor_names_the_roles_that_are_missing(bare_server: EmbeddedPostgres, cli: Any) -> None:
    with psycopg.connect(bare_server.dsn, autocommit=True) as admin:
        Migrator(admin).up()
        for role in ROLES[:2]:
            admin.execute(f"drop owned by {role}")
            admin.execute(f"drop role {role}")
    checks = cli("--json", "doctor", "--dsn", bare_server.dsn).document["checks"]
    (found,) = [each for each in checks if each["check"] == "roles"]
    assert found["status"] == "warning"
    assert found["detail"] == "missing: penstock_consumer, penstock_producer"
    assert "create role penstock_producer nologin;" in found["advice"]
