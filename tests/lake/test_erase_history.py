"""What `lake forget` erases in PostgreSQL: rows of tables, statistics, and bytes of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Connect

from penstock.client.sync_client import Client

SECRET = "ada-lovelace-7"
ROWS = "select id, enqueued_at from penstock.history_log where payload::text like %s"
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


def files_with_the_secret(db: Any) -> list[str]:
    db.execute("checkpoint")
    (folder,) = db.execute(FOLDER).fetchone()
    return [file.name for file in Path(folder).iterdir() if SECRET.encode() in file.read_bytes()]


def test_the_messages_their_attempts_and_results_are_deleted(db: Any) -> None:
    assert erase(db) == 10 + 1 + 1
    assert db.execute("select count(*) from penstock.history_log").fetchone() == (90,)
    for table in ("attempt_log", "result"):
        assert db.execute(f"select count(*) from penstock.{table}").fetchone() == (0,)


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
    db.execute("vacuum full")
    assert files_with_the_secret(db) == []
