"""An upgrade does not break clients of the previous version: the rules of sql/README.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock.sql
from penstock import Client
from penstock.errors import SchemaNewerError

Connect = Callable[..., psycopg.Connection[Any]]

MIGRATIONS = Path(penstock.sql.__file__).parent / "migrations"
LISTED = Path(__file__).parent / "signatures.txt"
# Functions that users and clients call, with their parameters and what they return.
SIGNATURES = r"""
    select format('%s.%s(%s) returns %s', n.nspname, p.proname,
                  pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any (array['penstock', 'mdb_queue']) and p.proname !~ '^_'
      and p.prorettype <> 'trigger'::regtype
    union all
    select format('type %s (%s)', t.oid::regtype,
                  string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                             order by a.attnum))
    from pg_type t join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where t.typnamespace = 'penstock'::regnamespace group by t.oid
    order by 1"""
# A statement ends at a semicolon outside of texts, function bodies and comments.
STATEMENT = re.compile(r"(?:--[^\n]*|'(?:[^']|'')*'|(\$\w*\$).*?\1|[^;])+", re.S)
COMMENT = re.compile(r"--[^\n]*")
ABOVE = re.compile(r"(?:\s*--[^\n]*\n)*")
# What an older client may use no longer exists afterwards, has another name or type, or rejects
# its rows.
REMOVAL = re.compile(
    r"drop |alter .*\b(?:drop|rename|set schema|set not null)\b|alter .*\balter (?:column )?\w+"
    r" (?:set data )?type\b|alter .*\badd column (?![^,]*\b(?:default|generated)\b)[^,]*\bnot null",
    re.I,
)
ANNOUNCED = re.compile(r"-- Unused since version \d+\.")


def unannounced(migration: str) -> list[str]:
    """Statements of a migration that remove something without naming its last user."""
    found = []
    for match in STATEMENT.finditer(migration):
        statement = " ".join(COMMENT.sub("", match[0]).split())
        above = ABOVE.match(match[0])
        comments = COMMENT.findall(above[0]) if above else []
        if REMOVAL.match(statement) and not (comments and ANNOUNCED.fullmatch(comments[-1])):
            found.append(statement)
    return found


def test_what_clients_call_is_listed_and_stays(connect: Connect) -> None:
    found = [row[0] for row in connect().execute(SIGNATURES)]
    listed = LISTED.read_text("utf-8").splitlines()
    gone = sorted(set(listed) - set(found))
    assert not gone, "older clients call these: keep them, and give what is new another name"
    new = sorted(set(found) - set(listed))
    assert not new, f"add these to {LISTED.name}: from now on clients may call them"


def test_migrations_remove_only_what_the_version_before_does_not_use() -> None:
    later = sorted(MIGRATIONS.glob("*.sql"))[1:]
    assert {file.name: unannounced(file.read_text("utf-8")) for file in later} == {
        file.name: [] for file in later
    }


@pytest.mark.parametrize(
    "statement",
    [
        "drop function penstock.claim(text)",
        "DROP VIEW penstock.queues",
        "alter table penstock.queue drop column name",
        "-- Unused since long ago.\ndrop table penstock.queue",
        "-- Unused since version 3.\n-- And more.\ndrop table penstock.queue",
        "alter table penstock.queue\n  add column a integer,\n  drop column name",
        "alter table penstock.queue rename to queues",
        "alter table penstock.queue\n  rename column name to title",
        "alter view penstock.queues rename column queue to name",
        "alter function penstock.claim(text) rename to take",
        "alter table penstock.queue alter column name type varchar",
        "alter table penstock.queue alter name set data type varchar",
        "alter table penstock.queue\n  alter column name\n  set not null",
        "alter table penstock.queue add column a integer not null",
        "alter table penstock.queue set schema public",
    ],
)
def test_a_removal_without_a_version_is_found(statement: str) -> None:
    assert len(unannounced(f"create table x ();\n{statement};")) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "-- Unused since version 3.\ndrop function penstock.claim(text)",
        "-- A remark.\n-- Unused since version 3.\nalter table penstock.queue\n  drop column name",
        "alter table penstock.queue add column a integer not null default 0",
        "alter table penstock.queue add column a integer -- dropped later; not null",
        "do $$ begin perform 'drop table penstock.queue; drop'; end $$",
        "comment on table penstock.queue is 'drop; drop table'",
    ],
)
def test_a_removal_with_its_version_and_an_addition_are_allowed(statement: str) -> None:
    assert unannounced(f"create table x ();\n{statement};\nselect 1;") == []


def test_a_newer_schema_that_serves_older_clients_is_used(dsn: str, connect: Connect) -> None:
    connect().execute(
        "insert into penstock.migration (version, name, checksum, clients_from)"
        " select max(version) + 1, 'later', '', max(version) from penstock.migration"
    )
    with Client(dsn) as client:
        client.create_queue("work")
        client.enqueue("work", 1)
        assert len(client.claim("work")) == 1


def test_a_newer_schema_that_does_not_is_refused(dsn: str, connect: Connect) -> None:
    connect().execute(
        "insert into penstock.migration (version, name, checksum, clients_from)"
        " select max(version) + n, 'later', '', max(version) + n - 1"
        " from penstock.migration, generate_series(1, 2) n group by n"
    )
    with pytest.raises(SchemaNewerError), Client(dsn):
        pass
