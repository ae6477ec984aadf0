"""The schema of record and the migrations make the same database."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.catalog import describe, differences

import penstock.sql
from penstock.db.migrations import Migrator
from penstock.sql.expand import Expander

SQL = Path(penstock.sql.__file__).parent
Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def by_schema(make_database: Callable[[str], str], connect: Connect) -> psycopg.Connection[Any]:
    """A database made from sql/schema."""
    connection = connect(make_database("template0"))
    connection.execute(Expander().schema().encode())
    return connection


@pytest.fixture
def by_migrations(make_database: Callable[[str], str], connect: Connect) -> psycopg.Connection[Any]:
    """A database made by the migrations, without functions and views."""
    connection = connect(make_database("template0"))
    connection.execute((SQL / "schema" / "ledger.sql").read_bytes())
    for file in sorted((SQL / "migrations").glob("*.sql")):
        connection.execute(file.read_bytes())
    return connection


def test_the_schema_and_the_migrations_make_the_same_database(
    by_schema: psycopg.Connection[Any], by_migrations: psycopg.Connection[Any]
) -> None:
    made = describe(by_schema)
    assert len(made) > 1000
    assert differences(made, describe(by_migrations)) == []


def test_both_begin_with_the_same_rows(
    by_schema: psycopg.Connection[Any], by_migrations: psycopg.Connection[Any]
) -> None:
    tables = "select relname from pg_class where relkind = 'r' and relname !~ '^(pg|sql)_'"
    for (name,) in by_schema.execute(tables).fetchall():
        count = f"select count(*) from penstock.{name}".encode()
        assert by_schema.execute(count).fetchone() == by_migrations.execute(count).fetchone(), name


@pytest.mark.parametrize(
    ("change", "object"),
    [
        ("alter table penstock.queue add column extra integer", "columns penstock.queue.extra"),
        ("alter table penstock.queue alter paused set default true", "columns penstock.queue.pau"),
        ("alter table penstock.queue drop constraint max_depth_range", "constraints penstock.que"),
        ("drop index penstock.lane_3_key", "indexes penstock.lane_3_key"),
        ("alter sequence penstock.ring cache 5", "sequences penstock.ring"),
        ("select setval('penstock.ring', 92)", "sequences penstock.ring"),
        ("drop trigger at_commit on penstock.deferred_8", "triggers penstock.deferred_8"),
        ("alter table penstock.lane_2 replica identity default", "relations penstock.lane_2"),
        ("alter table penstock.lane_2 reset (autovacuum_enabled)", "relations penstock.lane_2"),
        ("alter table penstock.lane_2 set (toast.autovacuum_enabled = on)", "relations penstock.l"),
        ("grant select on penstock.dead to pg_monitor", "relations penstock.dead"),
        ("alter table penstock.dead owner to pg_monitor", "relations penstock.dead"),
        ("comment on table penstock.migration is 'another'", "relations penstock.migration"),
        ("alter type penstock.lease add attribute extra text", "columns penstock.lease.extra"),
        ("drop type penstock.sight_filter", "types penstock.sight_filter"),
    ],
)
def test_the_comparison_notices(
    by_schema: psycopg.Connection[Any], change: str, object: str
) -> None:
    before = describe(by_schema)
    by_schema.execute(change.encode())
    found = differences(before, describe(by_schema))
    assert any(line.startswith(object) for line in found), found


def test_a_column_that_was_dropped_again_leaves_no_difference(
    by_schema: psycopg.Connection[Any],
) -> None:
    before = describe(by_schema)
    by_schema.execute("alter table penstock.dead add column extra integer")
    by_schema.execute("alter table penstock.dead drop column extra")
    assert differences(before, describe(by_schema)) == []


def test_the_functions_leave_the_tables_as_they_are(
    by_migrations: psycopg.Connection[Any], make_database: Callable[[str], str], connect: Connect
) -> None:
    """The steps behind the migrations add views, functions, a type and grants."""
    whole = connect(make_database("template0"))
    Migrator(whole).up()
    granted = ("schemas", "relations", "types")
    tables = {k: v for k, v in describe(by_migrations).items() if not k.startswith(granted)}
    after = describe(whole)
    assert differences(tables, {name: after.get(name, "missing") for name in tables}) == []


def test_nothing_in_the_database_executes_text_to_create_ours() -> None:
    creates = re.compile(r"execute\s+(?:format|replace)\s*\(\s*'\s*create", re.I)
    # Registers, and the views of pgmq, for each queue.
    allowed = {"_register", "_unlogged_register", "_make_views"}
    for file in (SQL / "generated").glob("*.sql"):
        for function in re.split(r"^create or replace ", file.read_text("utf-8"), flags=re.M):
            if creates.search(function):
                named = re.match(r"function \w+\.(\w+)", function)
                assert named, function[:200]
                assert named[1] in allowed
