"""Databases in another encoding than UTF-8 are refused before anything is created."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.conftest import Connect

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator
from penstock.errors import MigrationError

COMMANDS = [
    ["migrate", "up"],
    ["migrate", "up", "--with", "pgmq"],
    ["up", "--no-server"],
    ["up", "--port", "0"],
]


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dsn(server: EmbeddedPostgres, encoding: str) -> Iterator[str]:
    """An empty database in that encoding."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
        yield server.dsn_of(name)
        admin.execute(f"drop database {name} with (force)")


def is_untouched(connection: psycopg.Connection[Any]) -> bool:
    query = "select count(*) from pg_namespace where nspname in ('penstock', 'mdb_queue', 'pgmq')"
    return connection.execute(query).fetchone() == (0,)


def test_the_migrator_refuses_it(connect: Connect, encoding: str) -> None:
    connection = connect()
    with pytest.raises(MigrationError, match=f"has the encoding {encoding}, Penstock needs UTF8"):
        Migrator(connection).up()
    assert is_untouched(connection)


def test_the_script_for_psql_refuses_it(connect: Connect, encoding: str) -> None:
    connection = connect()
    script = Migrator.sql().replace("\\set ON_ERROR_STOP on", "")
    with pytest.raises(psycopg.Error, match=f"has the encoding {encoding}, Penstock needs UTF8"):
        connection.execute(script.encode())
    connection.execute("rollback")
    assert is_untouched(connection)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_say_so_and_create_nothing(
    connect: Connect, dsn: str, encoding: str, command: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *command, "--dsn", dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert f"has the encoding {encoding}, Penstock needs UTF8" in told
    assert "create database NAME encoding 'UTF8' template template0" in told
    assert "Traceback" not in done.stderr
    assert is_untouched(connect())


def test_doctor_says_so(connect: Connect, dsn: str, encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "doctor", "--dsn", dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert f"has the encoding {encoding}, Penstock needs UTF8" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stderr
