"""Logical replication: every statement works while a publication covers all tables, and a
subscriber follows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.chaos.server import Server

from .conftest import Engine, durable_home, value, wait_for

MAJOR = 16 if os.environ.get("PENSTOCK_TEST_PG") == "16" else 18  # what the wheel has

SETTINGS = '{"backoff": {"kind": "constant", "base_seconds": 0}}'
TABLES = """
select c.oid::regclass::text from pg_class c
where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'r'
  and c.relname ~ '^(lane|leased|grant|body|deferred|(history|attempt)_log)_[0-9]+$'
   or c.oid in ('penstock.scheduled'::regclass, 'penstock.grouped'::regclass,
                'penstock.dead'::regclass, 'penstock.message_key'::regclass,
                'penstock.message_group'::regclass)
order by 1
"""
WITHOUT_IDENTITY = """
select c.oid::regclass::text from pg_class c
where c.relnamespace in ('penstock'::regnamespace, 'mdb_queue'::regnamespace)
  and c.relkind in ('r', 'p') and c.relreplident <> 'f'
  and not exists (select from pg_index i where i.indrelid = c.oid and i.indisvalid
                  and case c.relreplident when 'd' then i.indisprimary else i.indisreplident end)
"""


def test_every_table_has_a_replica_identity(engine: Engine) -> None:
    assert engine.connection.execute(WITHOUT_IDENTITY).fetchall() == []


def test_no_payload_over_a_kilobyte_is_part_of_an_identity(engine: Engine) -> None:
    query = "select relname::text, relreplident::text from pg_class where relname ~ '^body_[0-9]$'"
    found = engine.connection.execute(query).fetchall()
    assert sorted(found) == [(f"body_{slot}", "i") for slot in range(9)]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    """A publisher and a subscriber, which reach each other on loopback."""
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            place = stack.enter_context(durable_home())
            place.mkdir(mode=0o711)
            made.append(Server(place, MAJOR))
            stack.callback(made[-1].stop)
            with made[-1].connect() as connection:
                for setting in ("wal_level = logical", "fsync = off", "full_page_writes = off"):
                    connection.execute(f"alter system set {setting}")
                # A row of a queue names its registers, which are not replicated.
                for queue in ("plain", "work", "turning"):
                    Engine(connection).create(queue, SETTINGS)
            made[-1].restart("fast")
        yield made


@pytest.fixture(scope="module")
def published(servers: list[Server]) -> Iterator[Engine]:
    with servers[0].connect() as connection:
        connection.execute("create publication everything for all tables")
        yield Engine(connection)


@pytest.fixture(scope="module")
def follower(servers: list[Server], published: Engine) -> Iterator[psycopg.Connection[Any]]:
    """Both have the rows of an empty schema: only later rows are copied."""
    with servers[1].connect() as connection:
        connection.execute(
            sql.SQL(
                "create subscription following connection {} publication everything"
                " with (copy_data = false)"
            ).format(servers[0].dsn())
        )
        yield connection
        connection.execute("drop subscription following")


def every_verb(engine: Engine) -> None:
    """Each way in which a row is written, changed or deleted."""
    engine.enqueue_many("plain", 40)
    engine.enqueue("plain", '"' + "x" * 3000 + '"')
    for payload in ("1", "2", "3"):
        engine.enqueue("plain", payload, key="k", on_conflict="replace")
    for queue in ("plain", "work"):
        scheduled = engine.enqueue(queue, delay="1 hour")
        engine.value("select penstock.cancel(%s)", scheduled)
    for _ in range(3):
        engine.enqueue("work", group_key="g")
    few, many = engine.claim("plain", 3), engine.claim("plain", 30)  # moved, and held in place
    assert min(token for _, token in many) >= 2**62 > max(token for _, token in few)
    for leases in (few, many, engine.claim("work", 1)):
        id, token = leases[0]
        engine.value("select penstock.extend(%s, %s)", id, token)
        engine.value("select penstock.nack(%s, %s, 'x')", id, token)
    engine.value("select penstock.snooze(%s, %s, interval '1 minute')", *many[1])
    engine.value("select penstock.reject(%s, %s, 'x')", *many[2])
    engine.value("select penstock.redrive('plain')")
    engine.ack(few[1:] + many[3:])
    for queue in ("plain", "work"):
        while leases := engine.claim(queue, 10):
            engine.ack(leases)
    engine.value("select penstock.purge('plain')")
    engine.rotate()
    engine.tend()


def test_every_verb_works_under_a_publication_and_a_subscriber_follows(
    published: Engine, follower: psycopg.Connection[Any]
) -> None:
    every_verb(published)
    left = published.enqueue("work", '{"left": true}', key="left")
    tables = [row[0] for row in published.connection.execute(TABLES)]
    assert len(tables) == 9 * 5 + 16 * 2 + 5
    sums = " union all ".join(
        f"select '{table}', count(*), coalesce(sum(hashtextextended(t::text, 0)), 0)::text"
        f" from {table} t"
        for table in tables
    )

    def differ() -> list[Any]:
        ours, theirs = (c.execute(sums).fetchall() for c in (published.connection, follower))
        return [pair for pair in zip(ours, theirs, strict=True) if len(set(pair)) > 1]

    wait_for(lambda: not differ(), "the subscriber has the same rows in every table")
    assert value(follower, "select id from penstock.messages where key = 'left'") == left
