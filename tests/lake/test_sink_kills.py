"""A write that dies at any step is in the queue as a whole or not at all, and can be repeated."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Connect
from tests.lake.writing import Write, payloads

from penstock.errors import (
    InvalidValueError,
    JobWrittenError,
    PayloadNotStorableError,
    QueueFullError,
)

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("sink_driver.py")
ALL = payloads(*range(150))
STEPS = ["one partition staged", "all partitions staged", "publishing", "published"]


@pytest.fixture
def db(connect: Connect) -> Any:
    connection = connect()
    connection.execute("select penstock.create_queue('mail')")
    return connection


def waiting(db: Any) -> list[int]:
    rows = db.execute("select (payload ->> 'n')::integer from penstock.messages order by id")
    return [n for (n,) in rows.fetchall()]


def kill_at(db: Any, dsn: str, job: str, step: str) -> None:
    """Runs a write, and kills its process before it can take the next step."""
    lock = "lock table penstock.spark_write in share mode"
    with db.transaction() if step == "publishing" else nullcontext():
        if step == "publishing":
            db.execute(lock)
        program = [sys.executable, "-m", "tests.lake.writing", dsn, job, step]
        with subprocess.Popen(
            program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == step:
                    break
            if step == "publishing":
                wait_until_blocked(db)
            process.kill()


def wait_until_blocked(db: Any) -> int:
    """The pid of the session that publishes, once the lock makes it wait."""
    blocked = (
        "select pid from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock' and query ~ 'spark_publish'"
    )
    while not (found := db.execute(blocked).fetchone()):
        db.execute("select pg_stat_clear_snapshot()")
    return int(found[0])


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_job_is_completed_with_any_partitions(db: Any, dsn: str, step: str) -> None:
    kill_at(db, dsn, "job", step)
    before = waiting(db)
    assert before == ([*range(150)] if step == "published" else [])
    Write(dsn, job="job").run(ALL[120:], ALL[:7], [], ALL[7:120])
    assert sorted(waiting(db)) == [*range(150)]
    if step != "published":
        Write(dsn, job="job").run(ALL)
    assert sorted(waiting(db)) == [*range(150)]
    assert db.execute("select repeats from penstock.spark_writes").fetchall() == [(1,)]
    print(f"killed at {step!r}: {len(before)} rows enqueued; repeated with 4 partitions: exact")


def test_a_killed_write_without_a_name_leaves_nothing(db: Any, dsn: str) -> None:
    kill_at(db, dsn, "", "all partitions staged")
    assert waiting(db) == []
    Write(dsn).run(ALL)
    assert waiting(db) == [*range(150)]


def test_a_connection_lost_while_publishing_is_resolved(
    db: Any, dsn: str, connect: Connect
) -> None:
    write = Write(dsn)
    write.stage(0, ALL)
    with ThreadPoolExecutor(1) as pool:
        with db.transaction():
            db.execute("lock table penstock.spark_write in share mode")
            done = pool.submit(write.commit)
            db.execute("select pg_terminate_backend(%s)", [wait_until_blocked(db)])
        done.result()
    assert waiting(connect()) == [*range(150)]


def test_an_attempt_that_is_run_again_counts_once(db: Any, dsn: str) -> None:
    """The first attempt staged everything, and its message was lost with its executor."""
    write = Write(dsn)
    write.stage(0, ALL)
    write.messages.clear()
    write.stage(0, ALL)
    write.commit()
    assert waiting(db) == [*range(150)]


def test_a_finished_job_says_that_it_was_repeated(
    db: Any, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    Write(dsn, job="job").run(ALL)
    with caplog.at_level(logging.WARNING):
        Write(dsn, job="job").run(ALL[:1], ALL[1:])
    assert "job 'job' was written before" in caplog.text
    assert "nothing was enqueued now" in caplog.text
    assert waiting(db) == [*range(150)]


def test_a_finished_job_refuses_other_rows(db: Any, dsn: str) -> None:
    Write(dsn, job="job").run(ALL)
    with pytest.raises(JobWrittenError, match="was written before with other rows: 150"):
        Write(dsn, job="job").run(ALL[:-1])
    assert waiting(db) == [*range(150)]
    assert db.execute("select count(*) from penstock.spark_staged").fetchone() == (0,)


def test_an_aborted_write_leaves_nothing(db: Any, dsn: str) -> None:
    write = Write(dsn, job="job")
    write.stage(0, ALL)
    write.abort()
    assert db.execute("select count(*) from penstock.spark_staged").fetchone() == (0,)
    assert waiting(db) == []


def test_a_batch_of_a_stream_is_published_once(db: Any, dsn: str) -> None:
    """Killed after it was published and before Spark knew, a batch is computed again."""
    for number, epoch in ((0, 0), (1, 1), (2, 1), (3, 2)):
        Write(dsn, query="1f0c", epoch=epoch).run(payloads(number))
    assert waiting(db) == [0, 1, 3]
    for epoch in (0, 1):
        Write(dsn, query="1f0c", epoch=epoch, job="mine").run(payloads(10 + epoch))
    with pytest.raises(JobWrittenError, match="with other rows"):
        Write(dsn, query="77aa", epoch=0, job="mine").run(payloads(20))
    assert waiting(db) == [0, 1, 3, 10, 11]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_whose_driver_is_killed_is_exact_or_refused(db: Any, dsn: str) -> None:
    """With a real Spark, killed while its tasks stage and while it publishes."""

    def start(rows: int, partitions: int) -> subprocess.Popen[str]:
        words = [sys.executable, str(DRIVER), dsn, "job", str(rows), str(partitions)]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def end(rows: int, partitions: int) -> tuple[int, str]:
        process = start(rows, partitions)
        errors = process.communicate()[1]
        return process.returncode, errors

    def kill(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    process = start(200_000, 8)
    while not db.execute("select 1 from penstock.spark_staged limit 1").fetchone():
        assert process.poll() is None
    kill(process)
    assert waiting(db) == []
    print("driver killed while it staged 200,000 rows: nothing enqueued")
    with db.transaction():
        db.execute("lock table penstock.spark_write in share mode")
        process = start(15_002, 3)
        wait_until_blocked(db)
        kill(process)
    # PostgreSQL may still commit what the killed driver has sent.
    assert end(15_002, 7)[0] == 0
    assert sorted(waiting(db)) == [*range(15_002)]
    print("driver killed while it published 15,002 rows; repeated with 7 partitions: exact")
    code, errors = end(15_002, 2)
    assert (code, "job 'job' was written before" in errors) == (0, True)
    print("repeated with 2 partitions: exact, and says that it was written before")
    code, errors = end(15_001, 7)
    assert (code, "with other rows: 15002" in errors) == (1, True)
    print("repeated with 15,001 rows: refused")
    assert sorted(waiting(db)) == [*range(15_002)]


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ('{"n": 1', PayloadNotStorableError, r"row 5123 of partition 1, column payload: invalid"),
        ('"\\u0000"', PayloadNotStorableError, r"row 5123 of partition 1, column payload: unsup"),
        (None, InvalidValueError, r"row 5123 of partition 1, column payload: payload is null"),
    ],
)
def test_an_error_names_the_row_and_the_column(
    db: Any, dsn: str, wrong: Any, error: type[Exception], match: str
) -> None:
    write = Write(dsn)
    write.stage(0, ALL)
    with pytest.raises(error, match=match):
        write.stage(1, [*payloads(*range(5123)), wrong, *payloads(*range(5000))])
    write.abort()
    assert waiting(db) == []
    assert db.execute("select count(*) from penstock.spark_staged").fetchone() == (0,)


def test_a_full_queue_is_waited_for(db: Any, dsn: str, connect: Connect) -> None:
    db.execute("select penstock.set_queue('mail', '{\"max_depth\": 150}')")
    Write(dsn).run(ALL[:1])
    with pytest.raises(QueueFullError):
        Write(dsn, full_wait_seconds="0").run(ALL)
    write = Write(dsn)
    write.stage(0, ALL)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write.commit)
        db.execute("select penstock.purge('mail')")
        done.result()
    assert waiting(connect()) == [*range(150)]
