"""Workers and the database are killed while chains and batches run: each effect comes once.

`PENSTOCK_CRASH_CHAINS` and `PENSTOCK_CRASH_MEMBERS` say how many there are in the long form.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.chaos.server import Server

from penstock import Client, batch, chain
from penstock.errors import PenstockError

from . import crash_worker as tasks

WORKER = Path(tasks.__file__)
WORKERS = 2
LIMIT = 7000.0


class Crew:
    """Workers, of which one is killed now and then."""

    def __init__(self, dsn: str, place: Path) -> None:
        self._dsn = dsn
        self._errors = place / "errors"
        self._running: list[subprocess.Popen[bytes]] = []
        self.killed = 0
        for _ in range(WORKERS):
            self._start()

    def _start(self) -> None:
        with self._errors.open("ab") as errors:
            program = [sys.executable, str(WORKER), self._dsn]
            self._running.append(subprocess.Popen(program, stderr=errors))

    def replace_one(self) -> None:
        self._kill(self._running.pop(0))
        self._start()

    def _kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        self.killed += 1

    def end(self) -> None:
        while self._running:
            self._kill(self._running.pop())


@pytest.fixture
def cluster() -> Iterator[Server]:
    # Not below tmp_path, which the account of the server may not enter.
    with tempfile.TemporaryDirectory(prefix="penstock-crash-") as place:
        server = Server(Path(place))
        try:
            yield server
        finally:
            server.stop()


def run(cluster: Server, place: Path, calls: Iterator[Any], pause: float) -> tuple[Any, int, int]:
    """Enqueue a batch and kill until it has finished: its end, and how often was killed what."""
    dsn = cluster.dsn()
    with Client(dsn) as client:
        client.create_queue("crash", lease_seconds=2, keep_history=0)
    with cluster.connect() as db:
        db.execute("create table effect (chain bigint, number integer)")
        db.execute("create table fired (event text)")
    tasks.app._tasks.clients.dsn = dsn
    follow = tasks.follow.s
    made = batch(
        calls, on_success=follow("success"), on_failure=follow("failure"), on_finish=follow("end")
    ).enqueue_sync()
    crew = Crew(dsn, place)
    restarts = 0
    deadline = time.monotonic() + LIMIT
    try:
        while True:
            time.sleep(pause * random.uniform(0.5, 1.5))  # as long as the workers may live
            try:
                found = made.progress_sync()
                with cluster.connect() as db:
                    fired = db.execute("select count(*) from fired").fetchone()
            except (PenstockError, psycopg.Error):
                continue
            if found.state == "finished" and fired == (2,):
                return found, crew.killed, restarts
            assert time.monotonic() < deadline, found
            crew.replace_one()
            if crew.killed % 3 == 1:
                cluster.restart("immediate")
                restarts += 1
    finally:
        crew.end()
        tasks.app.close_sync()
        tasks.app._tasks.clients.dsn = None


def check_chains(cluster: Server, place: Path, count: int, pause: float) -> None:
    calls = (
        chain(tasks.step.s(n, 0), tasks.step.s(number=1), tasks.step.s(number=2))
        for n in range(count)
    )
    found, killed, restarts = run(cluster, place, calls, pause)
    print(f"\n{count} chains: {killed} workers killed, {restarts} crashes of the database")
    assert (found.total, found.done, found.pending) == (count, count, 0)
    assert restarts > 0
    with cluster.connect() as db:
        effects = "select count(*), count(distinct (chain, number)) from effect"
        assert db.execute(effects).fetchone() == (3 * count, 3 * count)
        fired = db.execute("select event from fired order by 1").fetchall()
        assert fired == [("end",), ("success",)]
        assert db.execute("select (penstock.stats('crash')).ready").fetchone() == (0,)


def check_members(cluster: Server, place: Path, count: int, pause: float) -> None:
    calls = (tasks.member.s(n) for n in range(count))
    found, killed, restarts = run(cluster, place, calls, pause)
    print(f"\n{count} members: {killed} workers killed, {restarts} crashes of the database")
    assert (found.total, found.done, found.pending) == (count, count, 0)
    with cluster.connect() as db:
        fired = db.execute("select event from fired order by 1").fetchall()
        assert fired == [("end",), ("success",)]
        members = db.execute("select count(*) from penstock.batch_member").fetchone()
        assert members == (0,)


def test_a_few_chains_survive_crashes(cluster: Server, tmp_path: Path) -> None:
    check_chains(cluster, tmp_path, 2000, 1.0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_chains_survive_crashes(cluster: Server, tmp_path: Path) -> None:
    check_chains(cluster, tmp_path, int(os.environ.get("PENSTOCK_CRASH_CHAINS", "100000")), 8.0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_batch_of_a_million_survives_crashes(cluster: Server, tmp_path: Path) -> None:
    check_members(cluster, tmp_path, int(os.environ.get("PENSTOCK_CRASH_MEMBERS", "1000000")), 8.0)
