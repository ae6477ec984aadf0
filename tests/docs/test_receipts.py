"""docs/tutorials/receipts.md is followed to the letter: its files, its commands, their output."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.worker.conftest import until

from penstock import Worker
from penstock.cli.program import run

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "receipts.md").read_text("utf-8")


def steps(section: int) -> Iterator[tuple[list[str], str]]:
    """The commands of a section, as they would be typed, with the output that the page shows."""
    (text,) = re.findall(rf"^## {section}\. .*?(?=^## )", PAGE, re.M | re.S)
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for typed, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.M):
            yield shlex.split(typed), shown


@pytest.fixture
def follow(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(command: list[str], shown: str = "") -> str:
        """Run a command that succeeds or prints what the page shows."""
        program, *arguments = command
        match program:
            case "penstock":
                assert run(arguments) == 0
            case "python":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sys, "argv", arguments)
                    try:
                        runpy.run_path(arguments[0], run_name="__main__")
                    except SystemExit as end:
                        print(end.code)
            case "mkdir":
                Path(*arguments).mkdir()
            case "cat":
                print(Path(*arguments).read_text(), end="")
            case _:
                raise AssertionError(command)
        out = capsys.readouterr().out
        assert shown in ("", out)
        return out

    return call


@pytest.fixture
def files(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The files of the page, in a directory of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    blocks = re.findall(r"^Save this file as `(\w+\.py)`.*?```python\n(.*?)```", PAGE, re.M | re.S)
    assert [name for name, _ in blocks] == ["tables.py", "shop.py", "work.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)


async def test_the_tutorial_ends_with_a_receipt_that_was_redriven(
    dsn: str,
    connect: Callable[..., psycopg.Connection[Any]],
    follow: Callable[..., str],
    files: None,
) -> None:
    db = connect()

    def stats() -> dict[str, int]:
        row = db.execute("select ready, dead from penstock.stats('receipts')").fetchone()
        assert row is not None
        return {"ready": row[0], "dead": row[1]}

    for command, shown in (*steps(1), *steps(2)):
        follow(command, shown)
    assert stats() == {"ready": 1, "dead": 0}
    assert db.execute("select count(*) from shop_order").fetchone() == (1,)

    (worker, _), (listing, _), (show, _) = steps(4)
    assert worker == ["penstock", "worker", "work:app"]
    async with Worker(runpy.run_path("work.py")["app"], dsn):
        await until(lambda: stats()["dead"], "the dead letter")
        (id,) = re.findall(r"^\s*(\d+)", follow(listing), re.M)
        error = "FileNotFoundError: [Errno 2] No such file or directory: 'outbox/1.txt'"
        assert error in re.sub(r"\s+", " ", PAGE)
        assert error in follow([id if word == "ID" else word for word in show])
        assert db.execute("select receipt_sent_at from shop_order").fetchone() == (None,)

        mkdir, redrive, cat, done = steps(5)
        follow(*mkdir)
        follow(*redrive)
        await until(
            lambda: db.execute(
                "select 1 from shop_order where receipt_sent_at is not null"
            ).fetchone(),
            "the receipt",
        )
        follow(*cat)
        assert id in follow(*done)
    assert stats() == {"ready": 0, "dead": 0}
