"""A new database for a test, with the schema in it. It is dropped after the test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock.db.migrations import Migrator
from penstock.worker.app import App

_LOCK: Final = 0x70656E7374657374
# Nothing here outlives the tests, so nothing has to reach the disk.
_FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def database(server: str | None = None, *, app: App | None = None) -> Iterator[str]:
    """Create a database with the schema for the duration of a `with` block.

    The schema is created once on a server, in a template database that stays there, and copied.

    Args:
        server: The DSN of a PostgreSQL on which the user may create databases. The default is an
            embedded one, which runs as long as it is in use and needs `penstock[embedded]`.
        app: An app whose tasks are enqueued in the new database during the block.

    Yields:
        The DSN of the new database. The database is dropped at the end of the block.
    """
    with (
        _server(server) as there,
        _on(there) as dsn,
        nullcontext() if app is None else app._tasks.clients.at(dsn),
    ):
        yield dsn


@contextmanager
def _server(server: str | None) -> Iterator[str]:
    if server is not None:
        yield server
        return
    from penstock.db.embedded import EmbeddedPostgres  # the extra may not be installed

    home = Path(tempfile.gettempdir()) / "penstock-testing"
    with EmbeddedPostgres.start(home, settings=_FAST) as embedded:
        yield embedded.dsn


@contextmanager
def _on(server: str) -> Iterator[str]:
    name = f"penstock_test_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        template = _template(admin, server)
        _run(admin, "create database {} template {}", name, template)
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            _run(admin, "drop database {} with (force)", name)


def _template(admin: psycopg.Connection[Any], server: str) -> str:
    """The name of the template for this version of the schema. The first caller creates it."""
    wanted = _checksum()
    name, unfinished = f"penstock_template_{wanted}", f"penstock_making_{wanted}"
    admin.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        found = admin.execute("select from pg_database where datname = %s", [name]).fetchone()
        if found is None:
            _run(admin, "drop database if exists {} with (force)", unfinished)
            _run(admin, "create database {}", unfinished)
            making = make_conninfo(server, dbname=unfinished)
            with psycopg.connect(making, autocommit=True) as connection:
                Migrator(connection).up()
            _run(admin, "alter database {} rename to {}", unfinished, name)
    finally:
        admin.execute("select pg_advisory_unlock(%s)", [_LOCK])
    return name


def _checksum() -> str:
    """The checksum of the schema. Each version of the schema has its own template."""
    return sha256(Migrator.sql().encode()).hexdigest()[:12]


def _run(admin: psycopg.Connection[Any], statement: str, *names: str) -> None:
    admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
