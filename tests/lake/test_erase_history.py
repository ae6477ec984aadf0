"""What `lake forget` erases in PostgreSQL: rows of tables, statistics, and bytes of files."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo
from tests.conftest import Connect
from tests.lake.searching import Sql, found_in_server_files, found_in_tables

from penstock import NewMessage
from penstock.client.sync_client import Client
from penstock.db.migrations import Migrator
from penstock.errors import PermissionDeniedError
from penstock.lake.maintenance.rewrite import Rewritten, require_rewritable, rewrite
from penstock.lake.parts import Parts, unobserved
from penstock.spark.options import Service

# Other tests use the same server, whose files are searched.
SECRET = f"ada-lovelace-{uuid4().hex}"
ROWS = "select id, enqueued_at from penstock.history_log where payload::text like %s"
EVERY_ROW = "select id, enqueued_at from penstock.history_log"


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


def sql(db: Any) -> Sql:
    def run(query: str, *arguments: Any) -> list[Any]:
        cursor = db.execute(query, arguments)
        return cursor.fetchall() if cursor.description else []

    return run


def erase(db: Any) -> int:
    ids, times = zip(*db.execute(ROWS, [f"%{SECRET}%"]).fetchall(), strict=True)
    call = "select penstock.erase_history(%s, %s)"
    return int(db.execute(call, [list(ids), list(times)]).fetchone()[0])


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
    assert {"history_log_0", "attempt_log_0", "pgmq_archive"} <= found_in_tables(sql(db), SECRET)
    ids, times = zip(*db.execute(EVERY_ROW).fetchall(), strict=True)
    assert len(ids) == 6
    db.execute("select penstock.erase_history(%s, %s)", [list(ids), list(times)])
    db.execute("select penstock.analyze_history()")
    assert found_in_tables(sql(db), SECRET) == set()


def statistics_with_the_secret(db: Any) -> set[str]:
    query = "select starelid::regclass::text from pg_statistic s where s::text like %s"
    return {name for (name,) in db.execute(query, [f"%{SECRET}%"]).fetchall()}


def test_the_statistics_have_none_of_their_values_either(db: Any) -> None:
    db.execute("analyze")
    assert statistics_with_the_secret(db)
    erase(db)
    db.execute("select penstock.analyze_history()")
    assert statistics_with_the_secret(db) == set()


def test_the_statistics_of_every_table_that_they_passed_through_have_none(
    dsn: str, connect: Connect
) -> None:
    """Keyed, grouped, delayed and dead-lettered messages, in tables that are empty afterwards."""
    db, numbers = connect(), range(20)
    customer = {"customer": SECRET}
    with Client(dsn) as client:
        client.create_queue("orders")
        keyed = [NewMessage(customer, key=f"{SECRET}-{n}", max_attempts=1) for n in numbers]
        client.enqueue_many("orders", keyed)
        client.enqueue_many("orders", [NewMessage(1, group=f"{SECRET}-{n}") for n in numbers])
        delayed = [client.enqueue("orders", customer, delay=3600) for _ in numbers]
        leases = client.claim("orders", 1000, worker=SECRET)
        db.execute("analyze")
        for id in delayed:
            client.cancel(id)
        for lease in leases:
            client.nack(lease, f"no such customer: {SECRET}", delay=0)
        db.execute("analyze")
        assert client.redrive("orders") == 20
        while leases := client.claim("orders", 1000, worker=SECRET):
            client.ack_many(leases)
    db.execute("analyze")
    passed = {"dead", "scheduled", "message_key", "message_group", "history_log", "attempt_log"}
    assert passed <= statistics_with_the_secret(db)
    ids, times = zip(*db.execute(EVERY_ROW).fetchall(), strict=True)
    assert len(ids) == 60
    db.execute("select penstock.erase_history(%s, %s)", [list(ids), list(times)])
    db.execute("select penstock.analyze_history()")
    assert statistics_with_the_secret(db) == set()


def rewritten(dsn: str) -> Rewritten:
    return rewrite(Service("local", dsn), ["shop.not_published_yet"], Parts(unobserved, 0))


def test_a_rewrite_of_the_tables_removes_the_bytes_from_the_files(db: Any, dsn: str) -> None:
    db.execute("analyze")
    erase(db)
    db.execute("select penstock.analyze_history()")
    assert found_in_server_files(sql(db), SECRET)
    done = rewritten(dsn)
    assert (done.is_complete, done.checkpoint) == (True, True)
    assert found_in_server_files(sql(db), SECRET) == []


def test_a_rewrite_names_the_tables_that_open_transactions_use_or_may_read(
    db: Any, dsn: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("WAIT_SECONDS", "LOCK_SECONDS"):
        monkeypatch.setattr(f"penstock.lake.maintenance.rewrite.{limit}", 0.2)
    reader = connect()
    with reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1 from penstock.schedule")
        erase(db)
        done = rewritten(dsn)
    assert done.kept["penstock.history_log_0"] == 10
    assert "penstock.schedule" in done.locked


def test_only_the_owner_of_the_database_may_rewrite_its_tables(dsn: str) -> None:
    require_rewritable(Service("local", dsn))
    operator = make_conninfo(dsn, options="-c role=penstock_operator")
    with pytest.raises(PermissionDeniedError, match="role penstock_operator cannot rewrite"):
        require_rewritable(Service("local", operator))
