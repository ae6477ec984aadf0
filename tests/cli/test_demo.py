"""`penstock up --demo`: a real process that shows something alive, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.cli.conftest import (
    COMMAND,
    Answer,
    Start,
    children,
    command_line,
    ready,
    server_runs,
)

from penstock import Client
from penstock.demo.installation import LIST, existing, installed, remove
from penstock.demo.queues import ORDERS, QUEUES, SCHEDULES
from penstock.errors import ConfigurationError

EVERY_MINUTE = "demo-sales-every-minute"


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)


def ended(pid: int) -> None:
    while command_line(pid):
        time.sleep(0.1)


def demo_child(process: subprocess.Popen[str]) -> int:
    """The kernel may leave a child out of the list while another one ends."""
    found: list[int] = []
    while not found:
        assert process.poll() is None, process.communicate()
        found = [pid for pid in children(process.pid) if "up_demo" in command_line(pid)]
    (child,) = found
    return child


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.terminate()
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture
def penstock(home: Path) -> Callable[..., Answer]:
    """Runs a command line as a separate process, on the embedded database of the home."""
    named = ("PENSTOCK_DSN", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in named}

    def call(*argv: str) -> Answer:
        done = subprocess.run(
            [*COMMAND, *argv],
            capture_output=True,
            text=True,
            env={**environment, "PENSTOCK_HOME": str(home)},
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.mark.timeout(400)
def test_the_demo_is_alive_stops_starts_again_and_is_removed_without_a_trace(
    start: Start, penstock: Callable[..., Answer]
) -> None:
    process = start("--json", "--demo")
    found = ready(process)
    assert found["demo"]["queues"] == list(QUEUES)
    with Client(found["dsn"]) as client:
        client.create_queue("demo-mine")
        client.create_schedule("demo-my-schedule", "demo-mine", "0 3 1 1 *")
        for _ in range(2):
            client.enqueue("demo-mine", {"of": "the user"})
        client.ack(client.claim("demo-mine")[0])
        # The minute would be waited for. The worker looks at the schedules every ten seconds.
        with psycopg.connect(found["dsn"]) as connection:
            connection.execute(
                "update penstock.schedule set next_fire_at = now() where name = %s", [EVERY_MINUTE]
            )
        until(lambda: client.stats("demo-payments").dead >= 3, process)
        until(lambda: client.stats("demo-emails").dead >= 1, process)
        until(lambda: client.schedule(EVERY_MINUTE).last_fire_at is not None, process)
        assert {m.queue for m in client.messages(state="done")} >= {"demo-emails", "demo-shipments"}
        assert client.stats("demo-emails").scheduled > 0
        assert client.stats("demo-newsletters").ready > 0
        assert overview(found) >= {"demo-orders", "demo-payments", "demo-mine"}
        # The user may drop a queue of the demo: the others continue, and the next start creates it.
        client.drop_queue("demo-exports", force=True)
        last = client.enqueue(ORDERS, {"number": 1, "customer": "ada", "amount": 1})
        until(lambda: bool(client.messages(ORDERS, "done", after=last - 1)), process)
    with psycopg.connect(found["dsn"]) as connection:
        errors = connection.execute("select error from penstock.attempts").fetchall()
        assert any("closed the connection" in error for (error,) in errors)
    code, out, log = stopped(process)
    assert (code, out, "Traceback" in log) == (0, "", False)

    first, second = start("--json", "--demo"), start("--json", "--demo")
    assert ready(first)["demo"]["queues"] == ready(second)["demo"]["queues"] == list(QUEUES)
    assert stopped(first) == (0, "", "")
    refused = penstock("demo", "remove", "--yes")
    assert (refused.code, "the demo is running" in refused.err) == (2, True)
    with Client(found["dsn"]) as client:
        client.queue("demo-exports")
    assert stopped(second) == (0, "", "")

    assert penstock("demo", "remove").code == 2, "there is no terminal to ask on"
    removed = penstock("demo", "remove", "--yes", "--json")
    assert (removed.code, removed.err) == (0, "")
    assert removed.document["queues"] == list(QUEUES)
    assert removed.document["schedules"] == list(SCHEDULES)
    assert "There is no demo" in penstock("demo", "remove").out
    process = start("--json", "--no-server")
    with psycopg.connect(ready(process)["dsn"]) as connection:
        assert remains(connection) == {
            "queues": ["demo-mine"],
            "schedules": ["demo-my-schedule"],
            "messages": ["demo-mine"],
            "history": ["demo-mine"],
            "attempts": [],
            "heartbeats": [],
        }


def overview(found: dict[str, Any]) -> set[str]:
    """The queues that the first page of the UI shows."""
    with httpx.Client(base_url=found["url"], timeout=60) as browser:
        assert browser.get(found["sign_in_url"]).status_code == 303
        page = browser.get("/").text
        queues = {queue["name"] for queue in browser.get("/overview.json").json()["queues"]}
        assert all(queue in page for queue in queues)
        return queues


def remains(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    columns = {
        "queues": ("queues", "name"),
        "schedules": ("schedules", "name"),
        "messages": ("messages", "queue"),
        "history": ("history", "queue"),
        "attempts": ("attempts", "queue"),
        "heartbeats": ("heartbeats", "worker"),
    }
    return {
        name: [
            value
            for (value,) in connection.execute(
                f"select distinct {column} from penstock.{view} order by 1"
            )
        ]
        for name, (view, column) in columns.items()
    }


def test_a_person_sees_how_to_stop_and_how_to_remove_it(
    start: Start, home: Path, penstock: Callable[..., Answer]
) -> None:
    process = start("--demo", "--no-server")
    assert process.stdout is not None
    text = ""
    while "Ctrl-C" not in text:
        line = process.stdout.readline()
        assert line, process.communicate()
        text += line
    command = text.partition("once it is stopped: ")[2].partition("\n")[0]
    assert command.startswith(f"PENSTOCK_HOME={home} ")
    assert stopped(process)[0] == 0
    done = subprocess.run(
        ["sh", "-ec", f"{command} --yes"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Dropped {len(QUEUES)} queues with ")


@pytest.mark.parametrize("victim", ["database", "up"])
def test_the_demo_ends_with_up_also_when_the_database_or_up_was_killed(
    start: Start, home: Path, victim: str
) -> None:
    process = start("--json", "--demo", "--no-server")
    found = ready(process)
    child = demo_child(process)
    with Client(found["dsn"]) as client:
        until(lambda: bool(client.messages(ORDERS, "done")), process)
    if victim == "database":
        pid_file = Path(found["data_directory"]) / "postmaster.pid"
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
        assert stopped(process) == (0, "", "")
    else:
        process.kill()
        process.communicate()
    ended(child)
    while server_runs(home):
        time.sleep(0.1)


@pytest.mark.parametrize("argv", [("up", "--demo", "--no-lake"), ("demo", "remove", "--yes")])
@pytest.mark.parametrize("how", ["--dsn", "PENSTOCK_DSN", "DATABASE_URL"])
def test_a_database_that_is_named_is_refused_and_left_as_it_is(
    home: Path, empty_dsn: str, argv: tuple[str, ...], how: str
) -> None:
    named = ["--dsn", empty_dsn] if how == "--dsn" else []
    others = {k: v for k, v in os.environ.items() if k not in ("PENSTOCK_DSN", "DATABASE_URL")}
    variables = {} if how == "--dsn" else {how: empty_dsn}
    done = subprocess.run(
        [*COMMAND, *argv, *named],
        capture_output=True,
        text=True,
        env={**others, **variables, "PENSTOCK_HOME": str(home)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "embedded PostgreSQL only" in done.stderr
    assert "unset PENSTOCK_DSN" in done.stderr
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select to_regnamespace('penstock')").fetchone() == (None,)
    assert not server_runs(home)


# What is created and removed, on a database of the test's run: no process is needed for it.


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as made:
        yield made


@pytest.mark.parametrize(("kind", "name"), [("queue", ORDERS), ("schedule", EVERY_MINUTE)])
def test_a_name_that_the_user_has_taken_stops_the_demo_before_it_creates_anything(
    client: Client, tmp_path: Path, kind: str, name: str
) -> None:
    client.create_queue(ORDERS if kind == "queue" else "mine")
    if kind == "schedule":
        client.create_schedule(name, "mine", "0 3 * * *")
    before = client.queues(), client.schedules()
    with (
        pytest.raises(ConfigurationError, match=f"{kind} '{name}' exists"),
        installed(client, tmp_path),
    ):
        pass
    assert (client.queues(), client.schedules()) == before
    assert remove(client, tmp_path).queues == []
    assert (client.queues(), client.schedules()) == before


def test_settings_that_the_user_changed_survive_the_next_start(
    client: Client, tmp_path: Path
) -> None:
    with installed(client, tmp_path):
        client.resume("demo-newsletters")
    with installed(client, tmp_path):
        assert not client.queue("demo-newsletters").paused


def test_history_that_a_lake_may_have_stays(client: Client, dsn: str, tmp_path: Path) -> None:
    with installed(client, tmp_path):
        client.enqueue(ORDERS, {})
        client.ack(client.claim(ORDERS)[0])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into penstock.lake (name, path, format) values ('l', '/', 'x')")
        removed = remove(client, tmp_path)
        assert (removed.queues, removed.history) == (list(QUEUES), False)
        assert remains(connection)["history"] == [ORDERS]


def test_a_list_of_queues_that_cannot_be_read_is_an_error_that_says_what_to_do(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / LIST).write_text("[1]")
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        existing(client, tmp_path)
    assert "penstock queue drop" in str(caught.value.hint)
