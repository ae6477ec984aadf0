"""Sessions that run other people's SQL as it is printed; databases with PGMQ, ours and its own."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from pgmq import get_embedded_install_sql
from psycopg import RawCursor, sql

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator

from .sessions import Connection, rows
from .work import Session

Fill = Callable[[Connection], object]


@pytest.fixture
def session(connect: Callable[..., Connection]) -> Session:
    """Opens sessions, of the test's database or another, that take $1 as libpq does."""
    return lambda dsn=None, **options: connect(dsn, cursor_factory=RawCursor, **options)


@pytest.fixture
def db(session: Session) -> Connection:
    return session()


def _template(server: EmbeddedPostgres, name: str, fill: Fill) -> str:
    """A database to clone, which the first worker to come makes."""
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(hashtext(%s))", [name])
        found = admin.execute("select from pg_database where datname = %s", [name]).fetchone()
        if found is None:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(f"{name}_made")))
            with psycopg.connect(server.dsn_of(f"{name}_made"), autocommit=True) as made:
                fill(made)
            names = sql.Identifier(f"{name}_made"), sql.Identifier(name)
            admin.execute(sql.SQL("alter database {} rename to {}").format(*names))
    return name


@pytest.fixture(scope="session")
def pgmq_template(server: EmbeddedPostgres) -> str:
    """Penstock with its schema pgmq."""
    return _template(server, "pgmq_ours", lambda made: Migrator(made, contracts=["pgmq"]).up())


@pytest.fixture(scope="session")
def real_pgmq_template(server: EmbeddedPostgres) -> str:
    """PGMQ itself, from the SQL that its Python client carries."""
    return _template(
        server, "pgmq_real", lambda made: made.execute(get_embedded_install_sql().encode())
    )


@pytest.fixture
def pgmq_dsn(make_database: Callable[[str], str], pgmq_template: str) -> str:
    return make_database(pgmq_template)


@pytest.fixture
def real_pgmq_dsn(make_database: Callable[[str], str], real_pgmq_template: str) -> str:
    return make_database(real_pgmq_template)


@pytest.fixture(params=["penstock", "pgmq"])
def mq(request: pytest.FixtureRequest, session: Session) -> Connection:
    """A session with a queue `work`, on our functions and on PGMQ's own."""
    name = {"penstock": "pgmq_dsn", "pgmq": "real_pgmq_dsn"}[request.param]
    connection = session(request.getfixturevalue(name))
    rows(connection, "select pgmq.create('work')")
    return connection
