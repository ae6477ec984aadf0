"""kill -9 of the driver, an executor, PostgreSQL and everything: the lake still has all, once.

Separate processes: the run that is killed, its Spark, the workers, the server.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.lake.spark_settings import FEW_ROWS

from penstock.db.embedded import EmbeddedPostgres, postmaster
from penstock.db.migrations import Migrator

WORKER = Path(__file__).with_name("crash_worker.py")
CONSUMER = Path(__file__).with_name("crash_consumer.py")
LIMIT = 600.0
WORKERS = 2


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        time.sleep(0.1)
    return found


class Stage:
    """Everything that can be killed."""

    def __init__(
        self,
        place: Path,
        conf: list[str],
        batch: int,
        pause: float,
        root: str | None = None,
        options: dict[str, str] | None = None,
        together: bool = False,
    ) -> None:
        """`together`: one process runs the lake and the stream that claims, on one Spark."""
        self.place = place
        self.together = together
        self.home = place / "home"
        # The lake, and how delta-rs reaches it.
        self.root = root or str(place / "lake")
        self.options = options
        self.conf = conf
        self.batch = batch
        self.pause = pause
        self.chance = random.Random(os.environ.get("PENSTOCK_CRASH_SEED", "4"))
        self.server = EmbeddedPostgres.start(self.home)
        # The lake's run and the stream that claims, or both in one process.
        self.runs: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.started = 0
        # So many messages are enqueued by the end of a round. The lake could not keep up with more.
        self.goal = 0

    def lake_words(self, *argv: str) -> list[str]:
        words = ["lake", *argv, "--path", self.root]
        return [*words, *(word for each in self.conf for word in ("--conf", each))]

    def lake_command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "penstock.cli", *self.lake_words(*argv)]

    def consumer_command(self, *argv: str) -> list[str]:
        return [sys.executable, str(CONSUMER), self.server.dsn, "three", str(self.place), *argv]

    def commands(self) -> dict[str, list[str]]:
        """The commands that run until they are killed, by name."""
        every = ("run", "--every", "1s", "--refresh-every", "2s")
        if self.together:
            return {"both": self.consumer_command("--", *self.lake_words(*every))}
        return {"lake": self.lake_command(*every), "consumer": self.consumer_command()}

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PENSTOCK_DSN": self.server.dsn}

    def ensure(self) -> None:
        """The runs and the workers are there, and enqueue until the round has its messages."""
        enough = self.place / "enough"
        if self.enqueued_count() >= self.goal:
            enough.touch()
        else:
            enough.unlink(missing_ok=True)
        with (self.place / "errors").open("ab") as errors:
            for name, command in self.commands().items():
                if name not in self.runs or self.runs[name].poll() is not None:
                    self.runs[name] = subprocess.Popen(
                        command, env=self.environment(), stderr=errors, start_new_session=True
                    )
            self.workers = [worker for worker in self.workers if worker.poll() is None]
            while len(self.workers) < WORKERS:
                self.started += 1
                program = [sys.executable, str(WORKER), self.server.dsn]
                arguments = [f"{self.place}/journal-{self.started}", str(self.started)]
                self.workers.append(
                    subprocess.Popen(
                        [*program, *arguments, str(self.batch), str(self.pause)], stderr=errors
                    )
                )

    def enqueued_count(self) -> int:
        return sum(journal.read_bytes().count(b"\n") for journal in self.place.glob("journal-*"))

    def enqueued(self) -> set[int]:
        texts = [journal.read_text() for journal in self.place.glob("journal-*")]
        return {int(line) for text in texts for line in text.split("\n")[:-1]}

    def descendants(self, pid: int) -> list[tuple[int, str]]:
        """Of a process: each with its command line."""
        found = []
        listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True)
        children: dict[int, list[tuple[int, str]]] = {}
        for line in listed.stdout.splitlines()[1:]:
            number, parent, args = line.split(None, 2)
            children.setdefault(int(parent), []).append((int(number), args))
        todo = [pid]
        while todo:
            for child in children.get(todo.pop(), []):
                found.append(child)
                todo.append(child[0])
        return found

    def kill(self, what: str) -> None:
        runs = list(self.runs.values())
        drivers = {"driver": [self.chance.choice(runs)], "everything": runs}.get(what, [])
        family = [child for run in runs for child in self.descendants(run.pid)]
        for run in drivers:
            _kill(run.pid)
        if what == "everything":
            for pid, _ in family:
                _kill(pid)
            for worker in self.workers:
                worker.kill()
        if what == "executor":
            wait_for(self.kill_executor, "an executor is there and killed")
        if what in ("postgres", "everything"):
            self.kill_server()
        for run in drivers:
            run.wait()

    def kill_executor(self) -> bool:
        """A separate JVM on a cluster; in one process with the driver, its Python."""
        self.ensure()
        family = [child for run in self.runs.values() for child in self.descendants(run.pid)]
        own = [pid for pid, args in family if "CoarseGrainedExecutorBackend" in args]
        found = own or [pid for pid, args in family if "pyspark.daemon" in args]
        return bool(found) and _kill(self.chance.choice(found))

    def kill_server(self) -> None:
        pid = self.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        again = EmbeddedPostgres.start(self.home)
        self.server.stop()
        self.server = again

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        for run in self.runs.values():
            for pid, _ in [*self.descendants(run.pid), (run.pid, "")]:
                _kill(pid)
            run.wait()


def _kill(pid: int) -> bool:
    """Whether the process was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def place() -> Iterator[Path]:
    """Short, and open to the user that the server runs as."""
    place = Path(tempfile.mkdtemp(prefix="pens-", dir="/tmp"))
    place.chmod(0o711)
    yield place
    for data in place.glob("**/server/postgres"):
        postmaster.stop(data)
    shutil.rmtree(place, ignore_errors=True)


def crash(stage: Stage, kills: list[str], messages: int) -> None:
    with psycopg.connect(stage.server.dsn, autocommit=True) as connection:
        Migrator(connection).up()
        for queue in ("one", "two", "three"):
            connection.execute("select penstock.create_queue(%s)", [queue])
    try:
        for number, what in enumerate(kills, 1):
            stage.goal = number * messages // len(kills)
            stage.ensure()
            landed = landed_rows(stage)
            wait_for(lambda: busy(stage) and stage.enqueued_count() >= stage.goal, "work")
            wait_for(lambda n=landed: busy(stage) and landed_rows(stage) > n, "landing")
            time.sleep(stage.chance.random() * 2)
            stage.kill(what)
            print(
                f"{number}. killed {what}: {stage.enqueued_count()} messages, "
                f"{landed_rows(stage)} rows landed",
                flush=True,
            )
    finally:
        stage.end()
    if stage.together:
        finish_together(stage)
    else:
        finish(stage, stage.consumer_command("once"))
        drain(stage)
        finish(stage, stage.lake_command("run", "--once"))
        finish(stage, stage.lake_command("verify"))
    check(stage)
    check_consumer(stage)
    stage.server.stop()


def finish(stage: Stage, command: list[str]) -> None:
    done = subprocess.run(command, env=stage.environment(), check=False)
    assert done.returncode == 0, (stage.place / "errors").read_text()


def finish_together(stage: Stage) -> None:
    """The stream takes what is there, then all that is left is drained, then the lake lands all.

    The long form of the test verifies the lake, too.
    """
    command = stage.consumer_command("once", "--", *stage.lake_words("run", "--once"))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=stage.environment(), **pipes) as process:
        assert "consumed\n" in process.stdout
        drain(stage)
        process.communicate("\n")
    assert process.returncode == 0, (stage.place / "errors").read_text()


def busy(stage: Stage) -> bool:
    """Keeps all going: a server that was killed takes its workers along."""
    stage.ensure()
    return True


def landed_rows(stage: Stage) -> int:
    try:
        with psycopg.connect(stage.server.dsn) as connection:
            query = "select coalesce(sum(landed_rows), 0)::bigint from penstock.lake"
            return int(connection.execute(query).fetchone()[0])  # type: ignore[index]
    except psycopg.OperationalError:
        return 0


def drain(stage: Stage) -> None:
    """Every message that is left comes to its end."""
    with psycopg.connect(stage.server.dsn, autocommit=True) as connection:

        def empty() -> bool:
            for queue in ("one", "two", "three", "one.dlq", "two.dlq", "three.dlq"):
                leases = connection.execute(
                    "select id, token from penstock.claim(%s, 1000)", [queue]
                ).fetchall()
                if leases:
                    ids, tokens = (list(part) for part in zip(*leases, strict=True))
                    connection.execute(
                        "select penstock.ack_many(%s::bigint[], %s::bigint[])", [ids, tokens]
                    )
            query = "select not exists (select from penstock.messages)"
            return bool(connection.execute(query).fetchone()[0])  # type: ignore[index]

        wait_for(empty, "all that is left is delivered")


RECOUNT = """
select queue, date_trunc('minute', finished_at at time zone 'UTC') at time zone 'UTC', count(*),
       sum(payload_bytes_count)::bigint
from penstock.history_log group by 1, 2 order by 1, 2
"""
GOLD = """
select queue, minute, finished, payload_bytes
from penstock.gold_queue_minute where finished > 0 order by 1, 2
"""


def ids_in(stage: Stage, table: str, column: str = "id") -> list[int]:
    """As other programs read the table."""
    from deltalake import DeltaTable

    address = f"{stage.root}/{table}".replace("s3a://", "s3://")
    found = DeltaTable(address, storage_options=stage.options).to_pyarrow_table(columns=[column])
    return list(found[column].to_pylist())


def check(stage: Stage) -> None:
    landed, silver = ids_in(stage, "bronze/history"), ids_in(stage, "silver/messages")
    attempts = len(ids_in(stage, "bronze/attempts", "message_id"))
    with psycopg.connect(stage.server.dsn) as connection:
        finished = [row[0] for row in connection.execute("select id from penstock.history_log")]
        tried = connection.execute("select count(*) from penstock.attempt_log").fetchone()
        gold, recount = connection.execute(GOLD).fetchall(), connection.execute(RECOUNT).fetchall()
    print(
        f"{len(stage.enqueued())} messages, {len(finished)} finished, {len(landed)} landed, "
        f"{len(set(landed))} of them distinct, {attempts} failed attempts"
    )
    assert stage.enqueued() <= set(finished)
    assert len(set(finished)) == len(finished)
    assert sorted(landed) == sorted(finished)
    assert sorted(silver) == sorted(finished)
    assert attempts == tried[0]  # type: ignore[index]
    assert gold == recount


def check_consumer(stage: Stage) -> None:
    """What Spark acked is in its table once, and nothing else is."""
    table = [int(line) for line in (stage.place / "claimed.ids").read_text().split()]
    query = "select id from penstock.history_log where worker like 'spark/%' and state = 'done'"
    with psycopg.connect(stage.server.dsn) as connection:
        acked = [row[0] for row in connection.execute(query)]
    print(f"{len(acked)} acked by Spark, {len(table)} in its table, {len(set(table))} distinct")
    assert len(acked) > 0
    assert sorted(table) == sorted(acked)


@pytest.mark.timeout(900)
def test_the_lake_has_everything_once_after_everything_was_killed(place: Path) -> None:
    settings = {"spark.master": "local[1]", **FEW_ROWS}
    conf = [f"{name}={value}" for name, value in settings.items()]
    stage = Stage(place, conf, batch=20, pause=0.1, together=True)
    crash(stage, ["everything"], messages=600)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_lake_has_everything_once_after_many_crashes(place: Path) -> None:
    """Twenty rounds and a million messages, with separate executors.

    Workers that pause leave Spark some room on a small machine.
    """
    rounds = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20"))
    messages = int(os.environ.get("PENSTOCK_CRASH_MESSAGES", "1000000"))
    pause = float(os.environ.get("PENSTOCK_CRASH_PAUSE", "0"))
    batch = int(os.environ.get("PENSTOCK_CRASH_BATCH", "500"))
    kinds = ["driver", "executor", "postgres", "everything"]
    kills = [kinds[number % len(kinds)] for number in range(rounds)]
    conf = ["spark.master=local-cluster[2,1,1024]", "spark.driver.memory=1g"]
    crash(Stage(place, conf, batch, pause), kills, messages=messages)
