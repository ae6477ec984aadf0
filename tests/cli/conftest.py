"""Ways to run a command line: in this process, quickly, as a separate process, and `up`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.cli.program import run
from penstock.db.embedded import postmaster

COMMAND = [sys.executable, "-m", "penstock.cli"]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """stdout as the one JSON document that it should be."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """stderr as the one JSON error that it should be."""
        return json.loads(self.err)["error"]


Run = Callable[..., Answer]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def cli(dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process, on the test's own database."""
    monkeypatch.setenv("PENSTOCK_DSN", dsn)

    def call(*argv: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run([str(word) for word in argv])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def ask(cli: Run) -> Callable[..., Any]:
    """Runs a command line that succeeds, with --json; its document."""

    def call(*argv: object, stdin: bytes = b"") -> Any:
        answer = cli("--json", *argv, stdin=stdin)
        assert (answer.code, answer.err) == (0, ""), answer
        return answer.document

    return call


@pytest.fixture
def program(dsn: str) -> Run:
    """Runs a command line as a separate process, on the database of the test."""

    def call(*argv: object, stdin: bytes = b"") -> Answer:
        done = subprocess.run(
            [*COMMAND, *map(str, argv)],
            input=stdin,
            capture_output=True,
            env={**os.environ, "PENSTOCK_DSN": dsn},
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def count(dsn: str) -> Callable[[], int]:
    """How many live messages there are: for tests that nothing was written."""

    def messages() -> int:
        with psycopg.connect(dsn) as connection:
            row = connection.execute("select count(*) from penstock.messages").fetchone()
            return int(row[0]) if row else 0

    return messages


@pytest.fixture
def home() -> Iterator[Path]:
    """Not in pytest's own directory: if root runs the tests, the server's user has to enter."""
    made = Path(tempfile.mkdtemp(prefix="penstock-up-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts `penstock up` with its own home, and ends its processes."""
    started: list[subprocess.Popen[str]] = []

    def call(*argv: str, lake: bool = False, **environment: str) -> subprocess.Popen[str]:
        without = {k: v for k, v in os.environ.items() if k not in ("PENSTOCK_DSN", "DATABASE_URL")}
        process = subprocess.Popen(
            [*COMMAND, "up", *([] if lake else ["--no-lake"]), *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**without, "PENSTOCK_HOME": str(home), "PENSTOCK_HTTP_PORT": "0", **environment},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        # Not kill: the server would be stopped a moment later, under the hands of the clean-up.
        process.terminate()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Waits for the one line that says so."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def server_runs(home: Path) -> bool:
    return any(postmaster.running(found.parent) for found in home.rglob("PG_VERSION"))


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found += [int(child) for child in task.read_text().split()]
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
