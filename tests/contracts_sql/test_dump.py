"""A dump of a database with live queues, restored: every message, every grant, and it works on."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from penstock.db.migrations import Migrator

from .sessions import Connection, count, let_leases_run_out, rows, value
from .statements import ACK, CLAIM, claim_by

Session = Callable[..., Connection]

ACLS = """
    select c.oid::regclass::text, c.relacl::text, pg_get_userbyid(c.relowner)
    from pg_class c where c.relnamespace::regnamespace::text in ('penstock', 'mdb_queue', 'pgmq')
      and c.relkind in ('r', 'v', 'S', 'p')
    union all
    select p.oid::regprocedure::text, p.proacl::text, pg_get_userbyid(p.proowner)
    from pg_proc p where p.pronamespace::regnamespace::text in ('penstock', 'mdb_queue', 'pgmq')
    union all
    select n.nspname, n.nspacl::text, pg_get_userbyid(n.nspowner)
    from pg_namespace n where n.nspname in ('penstock', 'mdb_queue', 'pgmq')
    order by 1"""


@pytest.fixture
def copy_dsn(make_database: Callable[[str], str]) -> str:
    """Where the dump is restored."""
    return make_database("template0")


@pytest.fixture
def owner(empty_dsn: str, copy_dsn: str, template: str, session: Session) -> Iterator[str]:
    """A role that may make schemas here, and nothing else. (The template has made the others.)"""
    admin = session(empty_dsn)
    name = f"owner_{admin.info.backend_pid}"
    rows(admin, f"create role {name} login")
    rows(admin, f"grant create on database {admin.info.dbname} to {name}")
    yield name
    for dsn in (copy_dsn, empty_dsn):
        rows(session(dsn), f"drop owned by {name} cascade")
    rows(admin, f"drop role {name}")


@pytest.fixture
def live(empty_dsn: str, owner: str, session: Session) -> Connection:
    """Everything that is installed and made here belongs to the owner, who is not a superuser."""
    connection = session(empty_dsn)
    rows(connection, f"set session authorization {owner}")
    Migrator(connection, contracts=["pgmq"]).up()
    return connection


def restored(live_dsn: str, into: str, kind: str, pg_bin: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    form = {"pg_restore": "custom", "psql": "plain"}[kind]
    run(pg_bin / "pg_dump", f"--format={form}", f"--file={dump}", live_dsn)
    if kind == "pg_restore":
        run(pg_bin / "pg_restore", "--exit-on-error", "--dbname", into, str(dump))
    else:
        run(pg_bin / "psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}", into)


def run(*command: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["pg_restore", "psql"])
def test_everything_is_there_and_works_on(
    kind: str,
    live: Connection,
    owner: str,
    empty_dsn: str,
    copy_dsn: str,
    session: Session,
    pg_bin: Path,
    tmp_path: Path,
) -> None:
    rows(live, "insert into mdb_queue.queues (name) values ('order-events')")
    rows(live, "select pgmq.create('Work')")
    rows(live, "select pgmq.bind_topic('a.#', 'work')")
    rows(live, "select pgmq.enable_notify_insert('work')")
    ids = [value(live, "select * from pgmq.send('work', to_jsonb($1::int))", n) for n in range(6)]
    rows(live, "select pgmq.send('work', '\"later\"', 600)")
    rows(live, "select pgmq.archive('work', $1::bigint)", ids[0])
    rows(live, "select pgmq.read('work', 600, 1)")
    orders = [
        value(live, "select penstock.enqueue('order-events', to_jsonb($1::int))", n)
        for n in range(12)
    ]
    assert [row[0] for row in rows(live, CLAIM)] == orders[:10]
    rows(live, "select penstock.claim('order-events', 1, 600)")
    before = rows(session(empty_dsn), ACLS)

    restored(empty_dsn, copy_dsn, kind, pg_bin, tmp_path)
    copy = session(copy_dsn)
    assert rows(copy, ACLS) == before
    assert {row[2] for row in before} == {owner}
    rows(copy, f"set session authorization {owner}")
    assert Migrator(copy).status().pending == []
    assert Migrator(copy).status().contracts == ["pgmq"]

    assert len(rows(copy, "select * from pgmq.q_work")) == 6
    assert rows(copy, "select msg_id, message from pgmq.a_work") == [(ids[0], 0)]
    assert value(copy, "select pgmq.delete('work', $1::bigint)", ids[1]) is True
    assert [row[0] for row in rows(copy, "select msg_id from pgmq.read('work', 60, 9)")] == ids[2:]
    assert value(copy, "select total_messages from pgmq.metrics('work')") == 7
    assert value(copy, "select pgmq.send_topic('a.b', '1')") == 1
    assert value(copy, "select throttle_interval_ms from pgmq.notify_insert_throttle") == 250
    rows(copy, "select pgmq.create('another')")
    for number in orders[:10]:
        assert count(copy, ACK, number, "worker-1") == 1
    let_leases_run_out(copy)
    left = [row[0] for _ in range(3) for row in rows(copy, claim_by("worker-2"))]
    assert sorted(left) == orders[10:]
    new = value(copy, "select penstock.enqueue('order-events', '1')")
    assert new > max(orders)
    rows(copy, "reset session authorization")
    rows(copy, "set session authorization penstock_consumer")
    assert [row[0] for row in rows(copy, CLAIM)] == [new]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rows(copy, "select penstock.purge('order-events')")


def test_a_dump_under_load_loses_nothing(
    pgmq_dsn: str, session: Session, copy_dsn: str, pg_bin: Path, tmp_path: Path
) -> None:
    db = session(pgmq_dsn)
    rows(db, "select pgmq.create('work')")
    sent: list[int] = []
    settled: set[int] = set()
    stop = threading.Event()

    def produce() -> None:
        producer = session(pgmq_dsn)
        while not stop.is_set():
            sent.append(value(producer, "select * from pgmq.send('work', '1')"))

    def consume() -> None:
        consumer = session(pgmq_dsn)
        while not stop.is_set():
            found = rows(consumer, "select msg_id from pgmq.read('work', 600, 3)")
            for (number,) in found[:2]:
                settled.add(number)  # before it is: the dump may be taken in between
                rows(consumer, "select pgmq.delete('work', $1::bigint)", number)

    threads = [threading.Thread(target=act) for act in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        while len(settled) < 200 and all(thread.is_alive() for thread in threads):
            stop.wait(0.01)
        committed = set(sent)
        restored(pgmq_dsn, copy_dsn, "pg_restore", pg_bin, tmp_path)
        gone = set(settled)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    copy = session(copy_dsn)
    found = {row[0] for row in rows(copy, "select msg_id from pgmq.q_work")}
    assert committed - gone
    assert committed - gone <= found
    let_leases_run_out(copy)
    rows(copy, "select penstock.maintain(true)")
    came: list[int] = []
    while batch := rows(copy, "select msg_id from pgmq.read('work', 600, 1000)"):
        came += [row[0] for row in batch]
    assert sorted(came) == sorted(found), "each of them once"
