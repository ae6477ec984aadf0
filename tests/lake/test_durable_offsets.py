"""An offset never counts as seen what a crash of PostgreSQL can still undo."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest
from tests.lake.following import Stream

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator

# Asynchronous commits stay in memory until a session flushes.
SETTINGS = {"synchronous_commit": "off", "wal_writer_delay": "10s", "autovacuum": "off"}
WAL_WRITER = "select pid from pg_stat_activity where backend_type = 'walwriter'"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    # PostgreSQL runs as another user where the tests run as root, and has to get there.
    tmp_path.chmod(0o755)
    return tmp_path / "home"


def finish_one(db: psycopg.Connection[tuple[object, ...]]) -> int:
    db.execute("select penstock.enqueue('orders', '1')")
    rows = db.execute("select id, penstock.ack(id, token) from penstock.claim('orders')").fetchall()
    return int(str(rows[0][0]))


def test_what_a_stream_has_read_survives_the_crash_that_undoes_what_it_has_not(
    home: Path,
) -> None:
    with EmbeddedPostgres.start(home, settings=SETTINGS) as server:
        with psycopg.connect(server.dsn, autocommit=True) as db:
            Migrator(db).up()
            db.execute("select penstock.create_queue('orders')")
            db.execute("checkpoint")
            stream = Stream(dsn=server.dsn, table="history")
            read = [finish_one(db)]
            assert [row["id"] for row in stream.rest()] == read
            # Who would flush by itself, every few seconds, stands still until the crash.
            (wal_writer,) = (int(str(pid)) for (pid,) in db.execute(WAL_WRITER).fetchall())
            os.kill(wal_writer, signal.SIGSTOP)
            unread = finish_one(db)
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            os.kill(wal_writer, signal.SIGKILL)
        stream.close()
        with (
            EmbeddedPostgres.start(home, settings=SETTINGS) as again,
            psycopg.connect(again.dsn, autocommit=True) as db,
        ):
            kept = [id for (id,) in db.execute("select id from penstock.history").fetchall()]
            assert kept == read, f"message {unread} was to be undone, to show that commits are"
            more = finish_one(db)
            stream.options["dsn"] = again.dsn
            stream.restart()
            assert [row["id"] for row in stream.rest()] == [more]
            stream.close()
