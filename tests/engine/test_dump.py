"""A dump taken under full load, restored elsewhere, has every message that was not finished."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.db.migrations import Migrator

Programs = Callable[..., str]


@pytest.fixture
def run(pg_bin: Path) -> Programs:
    """Runs a program of the version under test."""

    def act(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(pg_bin / program), *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return act


class Producer:
    """Enqueues, and notes what was committed; some of it has a body, a key, a group or a delay."""

    OPTIONS = (
        {},
        {"payload": '"' + "x" * 3000 + '"'},
        {"group_key": "g"},
        {"delay": "1 second"},
        {"priority": 3},
    )

    def __init__(self, engine: Any, queue: str) -> None:
        self.engine, self.queue = engine, queue
        self.committed: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            options = self.OPTIONS[len(self.committed) % len(self.OPTIONS)]
            self.committed.add(self.engine.enqueue(self.queue, **options))

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class Consumer(Producer):
    """Settles: acks most, gives some back. `touched`: what may be finished."""

    def __init__(self, engine: Any, queue: str) -> None:
        super().__init__(engine, queue)
        self.touched: set[int] = set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.engine.value("select setval('penstock.ring_until', 0)")
            leases = self.engine.claim(self.queue, 5)
            for message, token in leases[:1]:
                query = "select count(*) from penstock.nack_many(%s, %s, null, '{0}')"
                self.engine.value(query, [message], [token])
            self.touched |= {lease[0] for lease in leases[1:]}
            self.engine.ack(leases[1:])


def restored(run: Programs, dump: Path, dsn: str) -> set[int]:
    run("pg_restore", "--exit-on-error", "--dbname", dsn, str(dump))
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute("select id from penstock.messages")}


def test_a_dump_under_load_loses_nothing(
    engine: Any, caller: Any, dsn: str, empty_dsn: str, run: Programs, tmp_path: Path, wait_for: Any
) -> None:
    # The leases at the time of the dump have to expire before the end.
    settings = '{"keep_history": 0, "max_attempts": 100, "lease_seconds": 2}'
    engine.create("work", settings)
    dump = tmp_path / "dump"
    with Producer(caller(), "work") as producer, Consumer(caller(), "work") as consumer:
        wait_for(lambda: len(consumer.touched) > 300, "traffic")
        committed = set(producer.committed)
        run("pg_dump", "--format=custom", f"--file={dump}", dsn)
        # What was acked while the dump began is not in it, and need not be.
        touched = set(consumer.touched)
        wait_for(lambda: len(consumer.touched) > len(touched) + 100, "traffic continues")
    found = restored(run, dump, empty_dsn)
    print(f"{len(committed)} committed, {len(committed - touched)} unfinished, {len(found)} found")
    assert committed - touched
    assert not (committed - touched) - found
    copy = caller(empty_dsn)
    copy.connection.execute("select penstock.set_queue('work', '{\"lease_seconds\": 60}')")
    check_works_at_once(copy, found)


def check_works_at_once(copy: Any, found: set[int]) -> None:
    new = copy.enqueue("work")
    assert new not in found
    copy.connection.execute("select penstock.maintain(true)")
    came = copy.drain("work", {*found, new})
    assert sorted(came) == sorted({*found, new}), "each of them once"
    assert Migrator(copy.connection).status().pending == []


def test_segments_are_not_taken_from_under_a_dump_that_begins(
    engine: Any, other: Any, wait_for: Any
) -> None:
    """pg_dump takes its snapshot first and its locks a moment later."""
    engine.create("work")
    moved = engine.enqueue("work")
    leases = engine.claim("work")
    for _ in range(3):
        engine.rotate()
    other.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    assert other.value("select count(*) from pg_class") > 0
    engine.value("select penstock.nack(%s, %s, 'later', '0')", *leases[0])
    engine.value("select penstock.maintain()")
    assert other.value("select array_agg(id) from penstock.messages") == [moved]


@pytest.fixture
def owner(engine: Any) -> Any:
    """A role that owns its own schema, dropped after the test."""
    name = f"owner_{os.getpid()}"
    engine.connection.execute(f"create role {name} login")
    yield name
    engine.connection.execute(f"drop owned by {name} cascade")
    engine.connection.execute(f"drop role {name}")


def test_owners_are_kept(
    engine: Any, owner: str, dsn: str, empty_dsn: str, run: Programs, tmp_path: Path, caller: Any
) -> None:
    engine.connection.execute("drop schema penstock, mdb_queue cascade")
    engine.connection.execute(
        f"grant create on database {engine.connection.info.dbname} to {owner}"
    )
    engine.connection.execute(f"set role {owner}")
    Migrator(engine.connection).up()
    engine.create("work")
    sent = set(engine.enqueue_many("work", 10))
    engine.connection.execute("reset role")
    dump = tmp_path / "dump.sql"
    run("pg_dump", "--format=plain", f"--file={dump}", dsn)
    run("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}", empty_dsn)
    copy = caller(empty_dsn)
    query = """select distinct pg_get_userbyid(relowner) from pg_class
               where relnamespace = 'penstock'::regnamespace"""
    assert copy.connection.execute(query).fetchall() == [(owner,)]
    check_works_at_once(copy, sent)
    copy.create("more")  # a register made now belongs to the same owner
    assert copy.connection.execute(query).fetchall() == [(owner,)]
    copy.connection.execute(f"drop owned by {owner} cascade")
