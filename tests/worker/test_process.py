"""`penstock worker` as a process: started, signalled, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock import Client
from penstock.cli.program import run
from penstock.commands import read

HERE = Path(__file__).parent
LIMIT = 60.0


class Process:
    """A worker process, and what its handlers wrote."""

    def __init__(self, dsn: str, runs: Path, *options: str) -> None:
        self.runs = runs
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "worker", "app_under_test:app", *options],
            cwd=HERE,
            env={**os.environ, "PENSTOCK_DSN": dsn, "RUNS": str(runs)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self, word: str) -> list[str]:
        text = self.runs.read_text("ascii") if self.runs.exists() else ""
        return [line for line in text.splitlines() if line.startswith(word)]

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + LIMIT
        while not (found := condition()):
            assert self.popen.poll() is None, f"ended before {what}"
            assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
            time.sleep(0.01)
        return found

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.popen.send_signal(number)
        _, errors = self.popen.communicate(timeout=LIMIT)
        return self.popen.returncode, errors


def heartbeats(client: Client) -> list[Any]:
    return client.run(read.heartbeats())


@pytest.fixture
def queues(dsn: str) -> Iterator[Client]:
    with Client(dsn, max_size=2) as client:
        for name in ("quick", "slow", "stuck"):
            client.create_queue(name)
        yield client


@pytest.fixture
def worker(dsn: str, tmp_path: Path, queues: Client) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(*options: str) -> Process:
        started.append(Process(dsn, tmp_path / "runs", *options))
        return started[-1]

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
            process.popen.communicate()


def test_handlers_finish_after_sigterm_and_nothing_else_is_begun(
    worker: Callable[..., Process], queues: Client
) -> None:
    process = worker("--queue", "slow")
    # Far more than are done before the signal, however late this process notices.
    ids = [queues.enqueue("slow", 0.3) for _ in range(400)]
    process.until(lambda: len(process.lines("begun")) >= 6, "some were begun")
    code, errors = process.stop()
    assert code == 0, errors
    begun = {int(line.split()[1]) for line in process.lines("begun")}
    ended = {int(line.split()[1]) for line in process.lines("ended")}
    assert begun == ended
    found = {id: queues.message(id) for id in ids}
    assert {id for id, message in found.items() if message.state == "done"} == ended
    left = [found[id] for id in ids if id not in ended]
    assert left, "all were done before the signal: nothing was tested"
    assert {(message.state, message.attempt) for message in left} == {("ready", 0)}
    assert heartbeats(queues) == []


def test_what_does_not_finish_in_the_grace_period_is_given_back_as_a_failed_attempt(
    worker: Callable[..., Process], queues: Client
) -> None:
    process = worker("--grace", "2s")
    long, stuck = queues.enqueue("slow", 600), queues.enqueue("stuck", 600)
    process.until(lambda: process.lines("begun") and process.lines("stuck"), "both were begun")
    before = time.monotonic()
    code, errors = process.stop()
    took = time.monotonic() - before
    assert code == 0, errors
    assert took < LIMIT  # it ended by itself: how soon is the grace period's affair
    for id in (long, stuck):
        message = queues.message(id)
        assert (message.state, message.attempt) == ("ready", 1)
        assert message.last_error == "the worker was stopped while the handler ran"


def test_a_second_signal_does_not_wait_for_handlers(
    worker: Callable[..., Process], queues: Client
) -> None:
    process = worker("--grace", "1h")
    id = queues.enqueue("slow", 600)
    process.until(lambda: process.lines("begun"), "it was begun")
    process.popen.send_signal(signal.SIGINT)
    # There may be no heartbeat yet: the first one is sent together with the first claims.
    process.until(lambda: [b.state for b in heartbeats(queues)] == ["draining"], "it drains")
    code, errors = process.stop(signal.SIGINT)
    assert code == 0, errors
    assert queues.message(id).state == "ready"


def test_what_a_killed_worker_held_is_done_by_another_when_its_lease_ran_out(
    worker: Callable[..., Process], queues: Client
) -> None:
    queues.set_queue("slow", lease_seconds=2)
    killed = worker()
    id = queues.enqueue("slow", 0.1)
    killed.until(lambda: killed.lines("begun"), "it was begun")
    killed.popen.kill()
    killed.popen.communicate()
    queues.set_queue("slow", lease_seconds=30)
    other = worker()
    other.until(lambda: queues.message(id).state == "done", "another did it")
    message = queues.message(id)
    assert message.attempt in (1, 2)  # it may have ended before the kill, and not been settled
    assert [attempt.error for attempt in message.attempts] in ([], ["the lease expired"])


def test_prometheus_finds_its_numbers_and_logs_are_json_lines(
    worker: Callable[..., Process], queues: Client
) -> None:
    process = worker("--metrics", "0", "--log-format", "json", "--name", "one")
    assert process.popen.stderr is not None
    first = json.loads(process.popen.stderr.readline())["message"]
    assert first.startswith("metrics are at http://127.0.0.1:")
    url = first.removeprefix("metrics are at ")
    queues.enqueue("quick", 1)
    process.until(lambda: process.lines("quick"), "it was done")

    def settled() -> str | None:
        with urllib.request.urlopen(url) as answer:
            text: str = answer.read().decode()
        return text if "penstock_worker_settled_total 1.0" in text else None

    text = process.until(settled, "it was settled")
    assert 'penstock_worker_messages_total{outcome="done",queue="quick"} 1.0' in text
    assert 'penstock_worker_run_seconds_bucket{le="+Inf",queue="quick"} 1.0' in text
    assert 'penstock_worker_concurrency{queue="slow"} 4.0' in text
    _, errors = process.stop()
    documents = [json.loads(line) for line in errors.splitlines()]
    assert documents[0]["message"] == "worker one serves quick, slow, stuck"
    assert documents[0]["worker"] == "one"


Penstock = Callable[..., tuple[int, str]]


@pytest.fixture
def penstock(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Penstock:
    """Runs `penstock worker` in this process, for commands that end at once."""
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))

    def call(*words: str) -> tuple[int, str]:
        exit_code = run(["worker", *words])
        return exit_code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing_here:app"], "'nothing_here' is neither in this directory nor installed"),
        (["app_under_test:ap"], "Did you mean app_under_test:app?"),
        (["app_under_test:app", "--queue", "quik"], "Did you mean 'quick'?"),
        (["app_under_test:app", "--metrics", "nowhere"], "write it as 9100"),
        (["app_under_test:app", "--concurrency", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_right(
    words: list[str], says: str, penstock: Penstock
) -> None:
    exit_code, errors = penstock(*words)
    assert exit_code == 2
    assert says in errors
    assert "Traceback" not in errors


def test_a_module_that_cannot_be_imported_is_shown_with_the_line(
    tmp_path: Path, penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_app.py").write_text("import json\n\njson.loads('x')\n")
    monkeypatch.chdir(tmp_path)
    exit_code, errors = penstock("broken_app")
    assert exit_code == 1
    assert "module 'broken_app' cannot be imported: JSONDecodeError" in errors
    assert f"({tmp_path / 'broken_app.py'}, line 3). Run it again with --debug" in errors
    assert "Traceback" not in errors


def test_a_queue_that_does_not_exist_is_an_error_at_the_start(penstock: Penstock) -> None:
    exit_code, errors = penstock("app_under_test:app")
    assert exit_code == 3
    assert "penstock queue create quick" in errors


def test_the_view_shows_a_worker_while_it_runs(
    worker: Callable[..., Process], queues: Client, dsn: str
) -> None:
    process = worker("--name", "mailer-1")
    (beat,) = process.until(lambda: heartbeats(queues), "it was seen")
    assert (beat.worker, beat.state, beat.alive, beat.pid) == (
        "mailer-1",
        "running",
        True,
        process.popen.pid,
    )
    assert beat.queues["slow"].concurrency == 4
    # In one transaction: its next beat waits.
    with psycopg.connect(dsn) as connection:
        connection.execute("update penstock.heartbeat set seen_at = now() - interval '1 hour'")
        row = connection.execute("select worker, alive from penstock.heartbeats").fetchone()
    assert row == ("mailer-1", False)
