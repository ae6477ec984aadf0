"""`penstock top` and `activity`."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from rich.console import Console
from tests.cli.conftest import COMMAND

from penstock import Client
from penstock.cli.monitor import _picture


def test_top_shows_the_longest_queues_first(
    cli: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    cli("queue", "create", "short")
    cli("queue", "create", "tall")
    for _ in range(2):
        cli("enqueue", "tall", "1")
    cli("enqueue", "short", "1")
    shown = ask("top", "--once")
    assert [(each["queue"], each["ready"]) for each in shown["queues"]] == [
        ("tall", 2),
        ("short", 1),
    ]
    text = cli("top").out.splitlines()  # no terminal: it ends
    assert text[0].startswith("QUEUE")
    assert text[1].split()[:2] == ["tall", "2"]
    cli("queue", "pause", "tall")
    assert [each["paused"] for each in ask("top", "--once")["queues"]] == [True, False]
    assert cli("top").out.splitlines()[1].split()[:3] == ["tall", "(paused)", "2"]


def test_top_shows_finished_and_failed_attempts_by_the_minute(
    cli: Callable[..., Any], ask: Callable[..., Any], dsn: str
) -> None:
    cli("queue", "create", "mails")
    with Client(dsn) as client:
        client.enqueue_many("mails", range(3))
        failed, *done = client.claim("mails", 3)
        client.nack(failed, "no")
        client.ack_many(done)
    (queue,) = ask("top")["queues"]
    assert queue["finished_per_minute"] > queue["failed_per_minute"] > 0
    assert cli("top").out.splitlines()[0].split("  ")[-1].strip() == "FAILED / MIN"


def test_the_totals_of_top_mark_an_estimate() -> None:
    console = Console(width=120)

    def head(*, estimated: bool) -> str:
        rows = [
            ["mails", 9, 0, 2, 1, None, 0.0, 0.0, False, estimated],
            ["a", 1, 0, 0, 0, 1, 0, 0, False, False],
        ]
        with console.capture() as shown:
            console.print(_picture(3, rows, 40))
        return shown.get().splitlines()[0].strip()

    assert head(estimated=False) == "2 queues, 10 ready, 2 leased, 1 dead, 3 workers"
    assert head(estimated=True) == "2 queues, ~10 ready, ~2 leased, ~1 dead, 3 workers"


@contextmanager
def on_a_terminal(*argv: str, dsn: str) -> Iterator[Callable[[str], None]]:
    """Runs a command on a terminal. What is yielded waits until the terminal shows a text."""
    ours, theirs = pty.openpty()
    environment = {"PENSTOCK_DSN": dsn, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        [*COMMAND, *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **environment},
    )
    os.close(theirs)

    def shows(text: str) -> None:
        seen = b""
        while text.encode() not in seen:
            seen += os.read(ours, 4096)  # an error once the process has ended

    try:
        yield shows
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


def test_top_follows_the_queues_and_goes_on_after_the_database_was_away(
    cli: Callable[..., Any], dsn: str, request: pytest.FixtureRequest
) -> None:
    cli("queue", "create", "mails")
    server = request.getfixturevalue("server").dsn
    with (
        psycopg.connect(server, autocommit=True) as admin,
        on_a_terminal("top", "--seconds", "0.5", dsn=dsn) as shows,
    ):
        shows("0 ready")
        cli("enqueue", "mails", "1")
        shows("1 ready")
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
        )
        shows("The database does not answer")
        admin.execute(f"alter database {name} allow_connections true")
        cli("enqueue", "mails", "2")
        shows("2 ready")


def test_activity_is_listed_by_actor_and_target(
    cli: Callable[..., Any], ask: Callable[..., Any], dsn: str
) -> None:
    assert "no actions are recorded" in cli("activity").out
    assert "no recorded action matches" in cli("activity", "--actor", "eve").out
    with psycopg.connect(dsn, autocommit=True) as db:
        for actor, target in (("ada", "orders"), ("bob", "orders"), ("ada", "mails")):
            db.execute("select penstock.record_activity(%s, 'pause', %s)", [actor, target])
    assert [a["target"] for a in ask("activity", "--actor", "ada")["activity"]] == [
        "mails",
        "orders",
    ]
    assert [a["actor"] for a in ask("activity", "--target", "orders")["activity"]] == ["bob", "ada"]
    assert len(ask("activity", "--limit", "1")["activity"]) == 1
