"""Tasks in separate processes, which can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock import App, AsyncClient, Worker, chain
from penstock.commands.write.progress import get_progress
from penstock.errors import (
    ConfigurationError,
    InvalidValueError,
    TaskCancelledError,
    TaskFailedError,
)
from penstock.model.progress import Progress
from penstock.worker import ProcessLimits

from .batches_in_sql import Connect
from .conftest import until

# Children import the tasks by the path of this process.
sys.path.append(str(Path(__file__).parent))
import process_tasks as tasks
import slow_import


@pytest.fixture
async def worker(dsn: str, client: AsyncClient):  # type: ignore[no-untyped-def]
    tasks.app._tasks.clients.dsn = dsn
    async with Worker(tasks.app, dsn) as worker:
        yield worker
    await tasks.app.close()


async def test_calls_run_in_a_process_that_is_kept(worker: Worker) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    found = [await (await tasks.year.enqueue(when)).result(60) for _ in range(2)]
    assert [year for year, _ in found] == [2026, 2026]
    pids = {pid for _, pid in found}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert await (await tasks.double.enqueue(4)).result(60) == 8
    # Its result goes to the next step of a chain, though it is not kept.
    assert await (await chain(tasks.triple.s(4), tasks.double.s()).enqueue()).result(60) == 24


async def test_failures_in_a_process_arrive_as_they_were(worker: Worker) -> None:
    expected = {
        "value": ("ValueError", "value"),
        "odd": ("RuntimeError", "OddError: 1 and 2"),
        "reject": (None, "not here"),
        "die": ("ProcessDiedError", "the process of the task ended by signal 9"),
    }
    for how, (type_, text) in expected.items():
        handle = await tasks.fail.enqueue(how)
        with pytest.raises(TaskFailedError) as caught:
            await handle.result(60)
        assert (caught.value.type, caught.value.text) == (type_, text)
        if how == "value":
            assert "in fail\n    raise ValueError(how)" in (caught.value.traceback or "")


async def test_a_call_that_takes_too_long_is_killed(worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    handle = await tasks.hang.enqueue(str(file))
    with pytest.raises(TaskFailedError, match="timed out after 1 s"):
        await handle.result(60)
    if file.exists():  # it was killed before it began, on a slow machine
        await until(lambda: not _is_running(int(file.read_text())), "the end of the process")


RUN_WORKER = """if __name__ == '__main__':
    import asyncio, sys
    import process_tasks
    from penstock import Worker
    asyncio.run(Worker(process_tasks.app, sys.argv[1]).run())
"""


async def test_a_task_in_a_process_ends_with_a_worker_that_is_killed(
    dsn: str, client: AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    tasks.app._tasks.clients.dsn = dsn
    await tasks.outlive.enqueue(str(file))
    await tasks.app.close()
    program = [sys.executable, "-c", RUN_WORKER, dsn]
    worker = await asyncio.create_subprocess_exec(*program, cwd=Path(__file__).parent)
    try:
        await until(lambda: file.exists() and file.read_text(), "the start of the task")
    finally:
        worker.kill()
        await worker.wait()
    child = int(file.read_text())
    try:
        await until(lambda: not _is_running(child), "the end of the process", 10)
    finally:
        if _is_running(child):
            os.kill(child, signal.SIGKILL)


async def test_a_process_is_replaced_after_its_last_task(worker: Worker) -> None:
    pids = [await (await tasks.pid.enqueue()).result(60) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_calls_wait_for_a_process_and_their_timeout_begins_when_they_have_one(
    worker: Worker, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    handles = [await tasks.take_turns.enqueue(str(gate)) for _ in range(3)]
    [runner] = worker.runners

    def timeouts() -> list[bool]:
        running = [each for each in runner.held() if each._handler is not None]
        return sorted(each._alarm is not None for each in running)

    await until(lambda: timeouts() == [False, False, True], "one runs, and two wait")
    # A call that waits can be cancelled, and ends no process.
    await handles[1].cancel()
    gate.touch()
    pids = {await handle.result(60) for handle in (handles[0], handles[2])}
    assert len(pids) == 1
    with pytest.raises(TaskCancelledError):
        await handles[1].result(60)


@pytest.mark.parametrize("field", ["max_tasks", "max_memory_mb", "max_processes"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        ProcessLimits(**{field: 0})


async def test_a_call_that_uses_too_much_memory_is_killed(worker: Worker) -> None:
    assert await (await tasks.eat.enqueue(1)).result(60) == 1024 * 1024
    with pytest.raises(TaskFailedError, match="used more than 300 MB"):
        await (await tasks.eat.enqueue(400)).result(60)


async def test_what_a_task_in_a_process_reports_is_visible_while_it_runs(
    client: AsyncClient, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "may end"
    id = (await tasks.report.enqueue(str(file))).id

    async def reported(line: str) -> Progress | None:
        found = await client.run(get_progress(id))
        return found if found is not None and line in found.log else None

    first = f"message {id} in attempt 1"
    found = await until(lambda: reported(first), "the report")
    assert (found.fraction, found.note, found.log) == (0.5, "page 100 of 200", (first,))
    file.touch()
    assert (await until(lambda: reported("the end"), "the last line")).log == (first, "the end")


async def test_what_a_process_enqueues_with_its_ack_comes_with_its_result(
    connect: Connect, worker: Worker
) -> None:
    keys = """select key from penstock.messages where queue = 'work' and key is not null
        union all select key from penstock.history_log where queue = 'work' and key is not null"""
    assert await (await tasks.pass_on.enqueue("good", False)).result(60) == "work"
    with pytest.raises(TaskFailedError):
        await (await tasks.pass_on.enqueue("bad", True)).result(60)
    assert connect().execute(keys).fetchall() == [("good",)]


async def test_a_task_in_a_process_calls_other_tasks(worker: Worker) -> None:
    assert [await (await tasks.ask.enqueue(text)).result(60) for text in ("a", "b")] == ["a", "b"]


async def test_a_task_in_a_process_acks_in_its_own_transaction(
    dsn: str, connect: Connect, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    connect().execute("create table effect (id bigint)")
    handle = await tasks.ack_alone.enqueue(dsn)
    assert await handle.result(60) == 7
    assert connect().execute("select id from effect").fetchall() == [(handle.id,)]
    await until(lambda: worker.unsettled == 0, "the end of the run")
    assert "was lost" not in caplog.text


async def test_a_large_call_does_not_stop_the_worker_while_a_process_starts(
    dsn: str, client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(slow_import.GATE, str(tmp_path))
    slow_import.app._tasks.clients.dsn = dsn
    text = "x" * 250_000  # more than fits into the pipe
    try:
        async with Worker(slow_import.app, dsn):
            handle = await slow_import.echo.enqueue(text)
            await until((tmp_path / "begun").exists, "the start of the process")
            (tmp_path / "open").touch()
            assert await handle.result(60) == text
    finally:
        await slow_import.app.close()


def test_a_task_that_no_child_can_import_is_refused() -> None:
    def local() -> None: ...

    with pytest.raises(ConfigurationError, match="top level of a module"):
        App().task(queue="work", process=True)(local)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
