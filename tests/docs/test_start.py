"""docs/index.md is followed to the letter: its file, its worker, its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text("utf-8")
PROGRAM = [sys.executable, "-m", "penstock.cli"]


def commands(section: str) -> list[list[str]]:
    """The `penstock` commands of one section, as they would be typed."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.M | re.S)
    return [shlex.split(line) for line in re.findall(r"^\$ penstock (.+)$", text, re.M)]


@pytest.fixture
def environment(dsn: str) -> dict[str, str]:
    return {**os.environ, "PENSTOCK_DSN": dsn, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    def call(*argv: str) -> str:
        return subprocess.check_output(
            [*PROGRAM, *argv], cwd=tmp_path, env=environment, encoding="utf-8"
        )

    return call


def test_five_minutes_end_with_one_message_handled_and_one_dead(
    run: Callable[..., str], environment: dict[str, str], tmp_path: Path
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "work.py").write_text(example)
    create, worker = commands("3. Run the worker")
    first, second, listing = commands("4. Enqueue messages")
    run(*create)
    process = subprocess.Popen(
        [*PROGRAM, *worker],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        run(*first)
        assert next(line for line in process.stdout if "ada" in line) == (
            "sending to ada@example.com\n"
        )
        run(*second)
        # The worker logs a rejected message; it settles it before it ends.
        assert any("nobody" in line for line in process.stdout)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    address = "nobody"
    assert f"'{address}' is not an e-mail address" in run(*listing, "--json")


def test_the_command_for_your_own_database_installs_the_schema(
    run: Callable[..., str],
) -> None:
    (migrate,) = commands("Use your own database")
    assert "nothing to apply" in run(*migrate)


def test_a_message_enqueued_in_a_transaction_commits_with_it(
    connect: Callable[..., psycopg.Connection[Any]],
) -> None:
    (example,) = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
    db = connect()
    db.execute("create table orders (id bigint, total numeric)")
    db.execute("select penstock.create_queue('emails')")
    db.execute(example.replace("commit;", "rollback;"))
    assert db.execute("select * from penstock.claim('emails', 10)").fetchall() == []
    db.execute(example)
    found = db.execute("select payload from penstock.claim('emails', 10)").fetchall()
    assert found == [({"order": 4217},)]
    assert db.execute("select count(*) from orders").fetchone() == (1,)
