"""docs/how-to/upgrade-downgrade-uninstall.md: its commands and statements do what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock import Client
from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "upgrade-downgrade-uninstall.md").read_text(
    "utf-8"
)
OURS = (
    "select nspname from pg_namespace where nspname in ('penstock', 'pgmq', 'mdb_queue') order by 1"
)
ROLES = "select rolname from pg_roles where rolname ~ '^penstock_'"


def statements(section: str) -> list[str]:
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return re.findall(r"```sql\n(.*?)```", text, re.S)


@pytest.fixture
def db(pg_bin: Path, tmp_path_factory: Any) -> Iterator[psycopg.Connection[Any]]:
    """A server of this test's own, because roles belong to a server, not to a database."""
    home = tmp_path_factory.mktemp("h")
    with (
        EmbeddedPostgres.start(home, bin_dir=pg_bin) as server,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        Migrator(connection, contracts=["pgmq"]).up()
        yield connection


def test_removing_pgmq_keeps_the_queues_and_uninstalling_removes_everything(
    db: psycopg.Connection[Any],
) -> None:
    db.execute("select pgmq.create('jobs')")
    db.execute("select pgmq.send('jobs', '1')")
    (remove_pgmq,) = statements("Remove PGMQ's functions only")
    db.execute(remove_pgmq)
    assert db.execute("select ready from penstock.stats('jobs')").fetchone() == (1,)
    assert Migrator(db).up() == []
    assert db.execute(OURS).fetchall() == [("mdb_queue",), ("penstock",)]

    schemas, roles = statements("Uninstall")
    db.execute(schemas)
    assert db.execute(OURS).fetchall() == []
    assert db.execute(ROLES).fetchall()
    db.execute(roles)
    assert db.execute(ROLES).fetchall() == []


def test_the_commands_of_an_upgrade_find_an_up_to_date_schema(dsn: str) -> None:
    commands = re.findall(r"^ *\$ penstock (.+)$", PAGE, re.M)
    assert commands == ["migrate status", "migrate up"]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *shlex.split(command)],
            env={**os.environ, "PENSTOCK_DSN": dsn},
            capture_output=True,
            encoding="utf-8",
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_an_old_client_that_is_running_survives_a_newer_schema(
    dsn: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    with Client(dsn) as client:
        client.create_queue("emails")
        connect().execute(
            "insert into penstock.migration (version, name, checksum) values (9999, 'later', 'x')"
        )
        id = client.enqueue("emails", 1)
        assert [lease.id for lease in client.claim("emails")] == [id]
