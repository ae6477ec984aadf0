"""Workers and the database are killed while chains and batches run: each effect comes once.

The long form has as many chains, members and kills as `PENSTOCK_CRASH_CHAINS`,
`PENSTOCK_CRASH_MEMBERS` and `PENSTOCK_CRASH_KILLS` say, 100,000, 1,000,000 and 90 by default:

    PENSTOCK_CRASH_CHAINS=20000 make pytest ARGS="-m slow tests/tasks/test_crashes.py -k chains"
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.chaos.server import Server

from penstock import Client, batch, chain
from penstock.errors import PenstockError
from penstock.model.batch import BatchProgress

from . import crash_worker as tasks

WORKER = Path(tasks.__file__)
WORKERS = 2
LIMIT = 7000.0
# How often a worker is killed. Every third time the database is, too.
KILLS = 4
KILLS_IN_SHORT_FORM = 2
KILLS_IN_LONG_FORM = int(os.environ.get("PENSTOCK_CRASH_KILLS", "90"))
LOOK_SECONDS = 0.1


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

    def restart_ended(self) -> None:
        """As a supervisor does: a worker that starts while the database is unavailable ends."""
        for worker in self._running:
            if worker.poll() is not None:
                self._running.remove(worker)
                self._start()
                return

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


@dataclass
class Faults:
    """Kills after each of a number of steps, so that the load of the machine changes nothing."""

    cluster: Server
    crew: Crew
    steps_between: int
    at_most: int
    kills: int = 0
    restarts: int = 0

    def after(self, steps: int) -> None:
        if self.kills < min(self.at_most, steps // self.steps_between):
            self.kills += 1
            self.crew.replace_one()
            if self.kills % 3 == 1:
                self.cluster.restart("immediate")
                self.restarts += 1

    def __str__(self) -> str:
        return f"{self.kills} workers killed, {self.restarts} crashes of the database"


# The chains whose last step has a result, their different values, and the number of results that
# lead to each of them.
RESULTS = """
with recursive step as (
  select r.id, r.next_id, r.value, 1 as number from penstock.result r
  where not exists (select from penstock.result p where p.next_id = r.id)
  union all
  select r.id, r.next_id, r.value, s.number + 1
  from step s join penstock.result r on r.id = s.next_id)
select count(*), count(distinct value), min(number), max(number) from step where next_id is null
"""

Steps = Callable[[psycopg.Connection[Any], BatchProgress], int]


def run(
    cluster: Server,
    place: Path,
    calls: Iterator[Any],
    steps: Steps,
    count: int,
    kills: int,
    cancel_from: int | None = None,
) -> BatchProgress:
    """Enqueue a batch of `count` steps and kill until it has finished.

    Some members are cancelled after `cancel_from` steps, and workers cancel the others. The last
    kill comes during that time.
    """
    dsn = cluster.dsn()
    with Client(dsn) as client:
        client.create_queue("crash", lease_seconds=3, keep_history=0)
    with cluster.connect() as db:
        db.execute("create table effect (chain bigint, number integer, step bigserial)")
        db.execute("create table fired (event text)")
    tasks.app._tasks.clients.dsn = dsn
    follow = tasks.follow.s
    started = time.monotonic()
    made = batch(
        calls, on_success=follow("success"), on_failure=follow("failure"), on_finish=follow("end")
    ).enqueue_sync()
    enqueued = time.monotonic()
    crew = Crew(dsn, place)
    steps_between = count // (kills + 1) if cancel_from is None else cancel_from // kills
    faults = Faults(cluster, crew, steps_between, kills)
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            crew.restart_ended()
            try:
                found = made.progress_sync()
                with cluster.connect() as db:
                    fired = db.execute("select count(*) from fired").fetchone()
                    taken = steps(db, found)
                    if cancel_from is not None and taken >= cancel_from:
                        cancel = "select penstock.cancel_batch(%s, 100)"
                        db.execute(cancel, [made.id])
                        cancel_from = None
            except (PenstockError, psycopg.Error):
                continue
            if found.state == "finished" and fired == (2,):
                break
            assert time.monotonic() < started + LIMIT, found
            faults.after(taken)
        ended = time.monotonic()
        print(f"\n{count} steps: {faults}; enqueued in {enqueued - started:.0f} s,", end=" ")
        print(f"ended {ended - enqueued:.0f} s later")
        assert faults.kills == kills
        return found
    finally:
        crew.end()
        tasks.app.close_sync()
        tasks.app._tasks.clients.dsn = None


def steps_of_chains(db: psycopg.Connection[Any], found: BatchProgress) -> int:
    row = db.execute("select last_value from effect_step_seq").fetchone()
    assert row is not None
    return int(row[0])


def ended_members(db: psycopg.Connection[Any], found: BatchProgress) -> int:
    return found.total - found.pending


def check_chains(cluster: Server, place: Path, count: int, kills: int) -> None:
    calls = (
        chain(tasks.step.s(n, 0), tasks.step.s(number=1), tasks.step.s(number=2))
        for n in range(count)
    )
    found = run(cluster, place, calls, steps_of_chains, 3 * count, kills)
    check_end(cluster, found, count)
    with cluster.connect() as db:
        effects = "select count(*), count(distinct (chain, number)) from effect"
        assert db.execute(effects).fetchone() == (3 * count, 3 * count)
        assert db.execute(RESULTS).fetchone() == (count, count, 3, 3)
        assert db.execute("select count(*) from penstock.result").fetchone() == (3 * count,)


def check_members(cluster: Server, place: Path, count: int, kills: int, seconds: float = 0) -> None:
    calls = (tasks.member.s(n, seconds) for n in range(count))
    check_end(cluster, run(cluster, place, calls, ended_members, count, kills), count)


def check_cancelled(cluster: Server, place: Path, count: int, kills: int) -> None:
    calls = (tasks.member.s(n) for n in range(count))
    found = run(cluster, place, calls, ended_members, count, kills, cancel_from=count // 2)
    assert found.done > 0
    assert found.cancelled > 100
    check_end(cluster, found, count, "failure")


def check_end(cluster: Server, found: BatchProgress, count: int, event: str = "success") -> None:
    """All members have ended, and the messages that follow them were enqueued once."""
    assert (found.total, found.done + found.cancelled, found.pending) == (count, count, 0)
    assert (found.cancelled == 0) == (event == "success")
    with cluster.connect() as db:
        fired = db.execute("select event from fired order by 1").fetchall()
        assert fired == [("end",), (event,)]
        left = "select count(*) from penstock.messages where queue = 'crash'"
        assert db.execute(left).fetchone() == (0,)
        assert db.execute("select count(*) from penstock.batch_member").fetchone() == (0,)


def test_a_few_chains_survive_crashes(cluster: Server, tmp_path: Path) -> None:
    check_chains(cluster, tmp_path, 150, KILLS_IN_SHORT_FORM)


def test_a_few_members_survive_crashes(cluster: Server, tmp_path: Path) -> None:
    check_members(cluster, tmp_path, 1000, KILLS_IN_SHORT_FORM, seconds=0.2)


@pytest.mark.slow
def test_a_batch_is_cancelled_during_crashes(cluster: Server, tmp_path: Path) -> None:
    check_cancelled(cluster, tmp_path, 50_000, KILLS)


@pytest.mark.slow
def test_a_small_batch_survives_crashes(cluster: Server, tmp_path: Path) -> None:
    check_members(cluster, tmp_path, 20_000, KILLS)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_chains_survive_crashes(cluster: Server, tmp_path: Path) -> None:
    count = int(os.environ.get("PENSTOCK_CRASH_CHAINS", "100000"))
    check_chains(cluster, tmp_path, count, KILLS_IN_LONG_FORM)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_batch_of_a_million_survives_crashes(cluster: Server, tmp_path: Path) -> None:
    count = int(os.environ.get("PENSTOCK_CRASH_MEMBERS", "1000000"))
    check_members(cluster, tmp_path, count, KILLS_IN_LONG_FORM)
