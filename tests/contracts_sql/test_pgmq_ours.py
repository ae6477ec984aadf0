"""Schema pgmq beyond what PGMQ itself does: its signatures, its installation, one queue for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.db.migrations import Migrator
from penstock.errors import MigrationError

from .sessions import Connection, count, let_leases_run_out, rows, value
from .statements import ACK, claim_by

Session = Callable[..., Connection]

SIGNATURES = """
    select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
    from pg_proc p
    where p.pronamespace = 'pgmq'::regnamespace and p.proname !~ '^_'
      and p.prorettype <> 'trigger'::regtype"""
TYPES = """
    select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'pgmq'::regnamespace and (c.relkind = 'c' or c.relname = any ($1))
      and a.attnum > 0
    order by c.relname, a.attnum"""
# What PGMQ's Python clients call though PGMQ has no such function.
EXTRA = {
    ("create", "queue_name text, partition_interval text, retention_interval text", "void"),
    ("send_topic", "routing_key text, msg jsonb, headers jsonb", "integer"),
}


@pytest.fixture
def mq(pgmq_dsn: str, session: Session) -> Connection:
    connection = session(pgmq_dsn)
    rows(connection, "select pgmq.create('work')")
    return connection


def test_every_public_function_has_its_signature(
    mq: Connection, real_pgmq_dsn: str, session: Session
) -> None:
    real = session(real_pgmq_dsn)
    theirs = set(rows(real, SIGNATURES))
    ours = set(rows(mq, SIGNATURES))
    assert len(theirs) > 60
    assert theirs - ours == set()
    assert ours - theirs == EXTRA


def test_every_record_and_relation_has_its_columns(
    mq: Connection, real_pgmq_dsn: str, session: Session
) -> None:
    real = session(real_pgmq_dsn)
    rows(real, "select pgmq.create('work')")
    relations = ["meta", "topic_bindings", "notify_insert_throttle", "q_work", "a_work"]
    assert rows(mq, TYPES, relations) == rows(real, TYPES, relations)


@pytest.mark.parametrize("kind", ["extension", "sql only"])
def test_it_is_refused_where_pgmq_is_installed(
    kind: str, real_pgmq_dsn: str, empty_dsn: str, session: Session, tmp_path: Path
) -> None:
    if kind == "extension":
        if session().info.server_version < 180000:
            pytest.skip("an extension can be added to those of the server from PostgreSQL 18 on")
        db = session(empty_dsn)
        (tmp_path / "extension").mkdir()
        (tmp_path / "extension" / "pgmq.control").write_text("default_version = '1'\nschema = pgmq")
        (tmp_path / "extension" / "pgmq--1.sql").write_text("create table pgmq.meta ();")
        for place in (tmp_path, *tmp_path.parents[:-2]):
            place.chmod(0o755)
        rows(db, f"set extension_control_path = '$system:{tmp_path}'")
        rows(db, "create extension pgmq")
        complaint = "the extension pgmq 1 is installed in this database"
    else:
        db = session(real_pgmq_dsn)
        complaint = "schema pgmq already exists"
    with pytest.raises(MigrationError, match=complaint) as caught:
        Migrator(db, contracts=["pgmq"]).up()
    assert "penstock import pgmq" in str(caught.value)
    assert Migrator(db).status().pending == [], "the rest of Penstock is there all the same"
    assert Migrator(db).status().contracts == []


def test_what_was_asked_for_once_is_kept_up_to_date(mq: Connection) -> None:
    assert Migrator(mq).status().contracts == ["pgmq"]
    assert Migrator(mq).status().pending == []
    rows(mq, "update penstock.migration_contract set checksum = 'an older one'")
    assert [step.name for step in Migrator(mq).up()] == ["contract pgmq"]
    number = value(mq, "select * from pgmq.send('work', '1')")
    rows(mq, "drop schema pgmq cascade")
    assert Migrator(mq).up() == []
    rows(mq, "select penstock.stats('work')")
    assert [step.name for step in Migrator(mq, contracts=["pgmq"]).up()] == ["contract pgmq"]
    assert value(mq, "select msg_id from pgmq.read('work', 30, 1)") == number
    with pytest.raises(MigrationError, match=r"no contract 'sqs'.*There are: pgmq"):
        Migrator(mq, contracts=["sqs"])


def test_one_queue_in_every_plane(mq: Connection) -> None:
    rows(mq, "select penstock.create_queue('native')")
    assert value(mq, "select count(*) from pgmq.list_queues()") == 2
    ours = value(mq, "select penstock.enqueue('native', '1', priority => 3)")
    theirs = value(mq, "select * from pgmq.send('native', '2')")
    raw = value(mq, "select penstock.enqueue('native', payload_bytes => '\\x00ff')")
    large = value(mq, "select penstock.enqueue('native', to_jsonb(repeat('x', 5000)))")
    found = rows(mq, "select msg_id, message from pgmq.read('native', 30, 10)")
    assert found == [(ours, 1), (theirs, 2), (raw, "AP8="), (large, "x" * 5000)]
    assert value(mq, "select pgmq.archive('native', $1::bigint)", large) is True
    deleted = rows(mq, "select * from pgmq.delete('native', $1)", [ours, theirs, raw])
    assert len(deleted) == 3
    # The queue keeps history, so all of them are in it.
    states = "select state, count(*) from penstock.history group by state"
    assert rows(mq, states) == [("done", 4)]
    # Its views come when it is asked for by PGMQ's name.
    rows(mq, "select pgmq.create('native')")
    assert value(mq, "select message from pgmq.a_native") == "x" * 5000


def test_a_lease_by_token_is_its_holders(mq: Connection) -> None:
    number = value(mq, "select * from pgmq.send('work', '1')")
    [(token,)] = rows(mq, "select token from penstock.claim('work')")
    assert value(mq, "select pgmq.delete('work', $1::bigint)", number) is False
    rows(mq, "select penstock.ack($1, $2)", number, token)
    number = value(mq, "select * from pgmq.send('work', '1')")
    rows(mq, claim_by("w", queue="work"))
    assert value(mq, "select pgmq.delete('work', $1::bigint)", number) is True
    assert count(mq, ACK, number, "w") == 0


def test_messages_are_tried_without_end(mq: Connection) -> None:
    number = value(mq, "select * from pgmq.send('work', '1')")
    for attempt in range(1, 130):
        how = "read('work', 0, 1)" if attempt % 2 else "read('work', 0, 1, '1')"
        assert rows(mq, f"select msg_id, read_ct from pgmq.{how}") == [(number, attempt)]
    rows(mq, "select pgmq.read('work', 30, 1)")
    let_leases_run_out(mq)
    assert value(mq, "select read_ct from pgmq.read('work', 30, 1)") == 131


def test_with_max_attempts_they_die(mq: Connection) -> None:
    rows(mq, """select penstock.set_queue('work', '{"max_attempts": 2}')""")
    number = value(mq, "select * from pgmq.send('work', '1')")
    for _ in range(2):
        assert value(mq, "select msg_id from pgmq.read('work', 30, 1)") == number
        let_leases_run_out(mq)
    assert rows(mq, "select * from pgmq.read('work', 30, 1)") == []
    assert value(mq, "select id from penstock.dead_letters") == number
    assert value(mq, "select msg_id from pgmq.read('work.dlq', 30, 1)") == number
    assert value(mq, "select penstock.redrive('work')") == 0, "a consumer is reading it"


def test_a_dropped_queue_takes_everything_along(mq: Connection) -> None:
    number = value(mq, "select * from pgmq.send('work', '1')")
    rows(mq, "select pgmq.archive('work', $1::bigint)", number)
    rows(mq, "select pgmq.bind_topic('#', 'work')")
    rows(mq, "select pgmq.enable_notify_insert('work')")
    registers = "select count(*) from pg_sequences where schemaname = 'penstock'"
    before = value(mq, registers)
    rows(mq, "select penstock.drop_queue('work')")
    relations = "select count(*) from pg_class where relname in ('q_work', 'a_work')"
    assert value(mq, relations) == 0
    assert value(mq, registers) == before - 11
    for table in ("pgmq_queue", "pgmq_archive", "pgmq_binding"):
        assert value(mq, f"select count(*) from penstock.{table}") == 0
    rows(mq, "select pgmq.create('work')")
    assert rows(mq, "select * from pgmq.a_work") == []


def test_more_than_one_claim_hands_out(mq: Connection) -> None:
    sent = """select count(*) from pgmq.send_batch('work',
                array(select to_jsonb(n) from generate_series(1, 10500) n))"""
    assert value(mq, sent) == 10500
    assert value(mq, "select count(*) from pgmq.read('work', 600, 10200)") == 10200
    assert value(mq, "select count(*) from pgmq.read('work', 600, null)") == 300
    assert value(mq, "select total_messages from pgmq.metrics('work')") == 10500
    assert value(mq, "select pgmq.purge_queue('work')") == 10500


def test_partitioned_queues_are_queues(mq: Connection) -> None:
    rows(mq, "select pgmq.create_partitioned('parted', '1 day', '7 days', premake => 2)")
    rows(mq, "select pgmq.create('parted-too', '100', '1000')")
    listed = "select queue_name from pgmq.list_queues() where is_partitioned order by 1"
    assert rows(mq, listed) == [("parted",), ("parted-too",)]
    rows(mq, "select pgmq.convert_archive_partitioned('parted')")
    for bad in ("'soon'", "null", "''"):
        with pytest.raises(psycopg.Error, match="partition_interval"):
            rows(mq, f"select pgmq.create_partitioned('other', {bad})")


def test_limits_and_pause_hold_for_pgmq(mq: Connection) -> None:
    rows(mq, "select count(*) from pgmq.send_batch('work', array['1', '2', '3', '4']::jsonb[])")
    calls = ["read('work', 30, 9)", "read('work', 30, 9, '1')", "read_grouped_head('work', 30, 9)"]
    rows(mq, "select penstock.pause('work')")
    for call in calls:
        assert rows(mq, f"select * from pgmq.{call}") == []
    rows(mq, "select penstock.resume('work')")
    rows(mq, """select penstock.set_queue('work', '{"max_in_flight": 1}')""")
    assert len(rows(mq, "select * from pgmq.read_grouped('work', 30, 9)")) == 1
    for call in calls:
        assert rows(mq, f"select * from pgmq.{call}") == []


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        (
            "penstock_producer",
            [
                "send('work', '1')",
                "send_batch('work', array['1']::jsonb[])",
                "send_topic('a', '1')",
            ],
            ["read('work', 1, 1)", "pop('work')", "delete('work', 1)", "create('x')"],
        ),
        (
            "penstock_consumer",
            ["read('work', 1, 1)", "delete('work', 1)", "archive('work', 1)", "metrics('work')"],
            ["send('work', '1')", "drop_queue('work')", "purge_queue('work')", "create('x')"],
        ),
        (
            "penstock_operator",
            ["create('x')", "send('x', '1')", "pop('x')", "purge_queue('x')", "drop_queue('x')"],
            [],
        ),
    ],
)
def test_roles(
    mq: Connection, session: Session, role: str, may: list[str], may_not: list[str]
) -> None:
    caller = session(mq.info.dsn)
    rows(caller, f"set session authorization {role}")
    for call in may:
        rows(caller, f"select * from pgmq.{call}")
    for call in [*may_not, "_queue('work')", "_end('work', array[1::bigint], false)"]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(caller, f"select * from pgmq.{call}")
    if role == "penstock_producer":
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(caller, "select * from pgmq.q_work")
    else:
        rows(caller, "select * from pgmq.q_work")
        rows(caller, "select * from pgmq.a_work")


def test_functions_have_their_own_search_path(mq: Connection) -> None:
    query = """
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'pgmq'::regnamespace
          and has_function_privilege('penstock_operator', p.oid, 'execute')
          and (not p.prosecdef
               or coalesce(p.proconfig::text, '') !~ 'search_path=pg_catalog, pg_temp')"""
    assert rows(mq, query) == []


def test_deep_queues_have_metrics_too(mq: Connection) -> None:
    sent = """select count(*) from pgmq.send_batch('work', array_fill('1'::jsonb, array[25000]))"""
    value(mq, sent)
    [found] = rows(mq, "select * from pgmq.metrics('work')")
    metrics: Any = dict(zip(["name", "length", "newest", "oldest", "total"], found, strict=False))
    assert metrics["total"] == 25000
    assert metrics["length"] >= 20000
    assert 0 <= metrics["newest"] <= metrics["oldest"]
