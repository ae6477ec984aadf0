"""A PGMQ queue and a jobs table to import from; the program, called as a user does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest
from pgmq import get_embedded_install_sql

from penstock.cli.program import run

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]


class Answer(NamedTuple):
    code: int
    out: Any
    err: str


Import = Callable[..., Answer]


@pytest.fixture
def bring(dsn: str, capsys: pytest.CaptureFixture[str]) -> Import:
    """`penstock import ... --json`, into the test's database."""

    def bring(*argv: str, into: str = dsn) -> Answer:
        code = run(["import", *argv, "--dsn", into, "--json"])
        out, err = capsys.readouterr()
        return Answer(code, json.loads(out) if out else None, err)

    return bring


@pytest.fixture
def target(connect: Connect) -> Connection:
    return connect()


@pytest.fixture
def source_dsn(empty_dsn: str) -> str:
    """Another database, with PGMQ itself in it and a queue named Jobs."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(get_embedded_install_sql().encode())
        connection.execute("select pgmq.create('Jobs')")
    return empty_dsn


@pytest.fixture
def source(source_dsn: str, connect: Connect) -> Connection:
    return connect(source_dsn)
