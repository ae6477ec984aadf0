"""Two ways to run a command line: in this process, quickly, and as a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from penstock.cli.program import run

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
    """Runs a command line as a process of its own, on the test's own database."""

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
