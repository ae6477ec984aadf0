"""What `lake forget` erases in PostgreSQL: rows of tables, statistics, and bytes of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Connect

from penstock.client.sync_client import Client
from penstock.db.migrations import Migrator

SECRET = "ada-lovelace-7"
ROWS = "select id, enqueued_at from penstock.history_log where payload::text like %s"
EVERY_ROW = "select id, enqueued_at from penstock.history_log"
TABLES = """
select oid::regclass::text from pg_class
where relkind in ('r', 'm') and relpersistence <> 't' and not relisshared
"""
FOLDER = """
select current_setting('data_directory') || '/base/' || oid from pg_database
where datname = current_database()
"""


@pytest.fixture
def db(dsn: str, connect: Connect) -> Any:
    """Ten messages of the customer among others, one of which failed first and has a result."""
    with Client(dsn) as client:
        client.create_queue("orders")
        payloads = [{"customer": SECRET if n % 10 == 0 else "grace"} for n in range(100)]
        client.enqueue_many("orders", payloads)
        (lease,) = client.claim("orders", 1)
        client.nack(lease, f"no such customer: {SECRET}", delay=0)
        while leases := client.claim("orders", 1000):
            client.ack_many(leases)
    connection = connect()
    connection.execute(
        "insert into penstock.result select id, payload, finished_at, 'infinity'"
        " from penstock.history_log where attempts = 2"
    )
    return connection


def erase(db: Any) -> int:
    ids, times = zip(*db.execute(ROWS, [f"%{SECRET}%"]).fetchall(), strict=True)
    call = "select penstock.erase_history(%s, %s)"
    return int(db.execute(call, [list(ids), list(times)]).fetchone()[0])


def tables_with_the_secret(db: Any) -> set[str]:
    texts = [f"%{SECRET}%", f"%{SECRET.encode().hex()}%"]
    query = "select exists (select from {} t where t::text like any (%s))"
    names = [name for (name,) in db.execute(TABLES).fetchall()]
    assert len(names) > 100
    return {name for name in names if db.execute(query.format(name), [texts]).fetchone()[0]}


def files_with_the_secret(db: Any) -> list[str]:
    db.execute("checkpoint")
    (folder,) = db.execute(FOLDER).fetchone()
    return [file.name for file in Path(folder).iterdir() if SECRET.encode() in file.read_bytes()]


def test_the_messages_their_attempts_and_results_are_deleted(db: Any) -> None:
    assert erase(db) == 10 + 1 + 1
    assert db.execute("select count(*) from penstock.history_log").fetchone() == (90,)
    for table in ("attempt_log", "result"):
        assert db.execute(f"select count(*) from penstock.{table}").fetchone() == (0,)


def test_no_table_has_what_finished_messages_had(dsn: str, connect: Connect) -> None:
    """Keys, groups, headers, bytes, large payloads, names of workers, and PGMQ's archive."""
    db = connect()
    with Client(dsn) as client:
        client.create_queue("orders")
        client.enqueue("orders", {"customer": SECRET, "note": "x" * 20_000})
        client.enqueue("orders", b"x" * 20_000 + SECRET.encode())
        client.enqueue("orders", 1, key=SECRET, headers={"customer": SECRET}, priority=3, ttl=3600)
        for number in range(2):
            client.enqueue("orders", number, group=SECRET)
        (ended,) = client.claim("orders", 1, worker=SECRET)
        client.nack(ended, f"no such customer: {SECRET}", delay=0)
        while leases := client.claim("orders", 1000, worker=SECRET):
            client.ack_many(leases)
    Migrator(db, contracts=["pgmq"]).up()
    db.execute("select pgmq.send('orders', %s)", [f'{{"customer": "{SECRET}"}}'])
    db.execute("select pgmq.archive('orders', msg_id) from pgmq.read('orders', 30, 1)")
    assert {"history_log_0", "attempt_log_0", "pgmq_archive"} <= tables_with_the_secret(db)
    ids, times = zip(*db.execute(EVERY_ROW).fetchall(), strict=True)
    assert len(ids) == 6
    db.execute("select penstock.erase_history(%s, %s)", [list(ids), list(times)])
    db.execute("select penstock.analyze_history()")
    assert tables_with_the_secret(db) == set()


def test_the_statistics_have_none_of_their_values_either(db: Any) -> None:
    values = "select count(*) from pg_statistic s where s::text like %s"
    db.execute("select penstock.analyze_history()")
    assert db.execute(values, [f"%{SECRET}%"]).fetchone() != (0,)
    erase(db)
    db.execute("select penstock.analyze_history()")
    assert db.execute(values, [f"%{SECRET}%"]).fetchone() == (0,)


def test_a_rewrite_of_the_tables_removes_the_bytes_from_the_files(db: Any) -> None:
    erase(db)
    assert files_with_the_secret(db)
    # A snapshot of autovacuum may keep dead rows through a rewrite. The timeout ends the loop.
    while files_with_the_secret(db):
        db.execute("vacuum full")
