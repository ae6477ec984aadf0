"""`penstock up`: a real process, its signals, and what is left of it."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.cli.conftest import COMMAND, Start, children, command_line, ready, server_runs

from penstock.cli.up import program_name, without_password
from penstock.settings import Settings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_runs_until_told_to_stop_and_leaves_nothing(
    start: Start, home: Path, number: signal.Signals
) -> None:
    process = start("--json")
    found = ready(process)
    assert found["embedded"] is True
    with psycopg.connect(found["dsn"]) as connection:
        row = connection.execute("select penstock.schema_version()").fetchone()
        assert row == (found["schema_version"],)
    assert server_runs(home)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")
    assert not server_runs(home)


@pytest.mark.parametrize("argv", [(), ("--processes", "2")])
def test_it_prints_a_link_that_signs_in_once_and_keeps_the_key_to_itself(
    start: Start, argv: tuple[str, ...]
) -> None:
    found = ready(start("--json", *argv))
    file = Path(found["admin_key_file"])
    key = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key.startswith("psk_")
    assert "psk_" not in json.dumps(found)
    with httpx.Client(timeout=60) as browser, httpx.Client(timeout=60) as other:
        assert browser.get(found["sign_in_url"]).status_code == 303
        assert browser.get(found["url"] + "/system").status_code == 200
        assert other.get(found["sign_in_url"]).status_code == 401
        assert other.post(found["url"] + "/login", data={"key": key}).status_code == 303


@pytest.mark.parametrize("argv", [(), ("--no-server",), ("--processes", "2")])
def test_two_signals_at_once_stop_it_as_quietly(
    start: Start, home: Path, argv: tuple[str, ...]
) -> None:
    process = start("--json", *argv)
    ready(process)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")
    assert not server_runs(home)


def test_a_second_one_says_that_it_joins_the_server(start: Start, home: Path) -> None:
    found = ready(start("--json", "--no-server"))
    assert (found["joined"], found["data_directory"]) == (False, f"{home}/server/postgres")
    second = start("--no-server")
    assert second.stdout is not None
    text = ""
    while "Ctrl-C" not in text:
        line = second.stdout.readline()
        assert line, second.communicate()
        text += line
    assert f"Data directory: {home}/server/postgres\n" in text
    assert "This PostgreSQL was already running" in text
    third = start("--json", "--no-server")
    assert ready(third)["joined"] is True


def test_home_decides_where_the_data_are(start: Start, home: Path) -> None:
    home.chmod(0o711)  # for the user that runs the server, if root runs the tests
    # Before anything is started: root's usual home may hold a database that is in use.
    assert Settings.from_environment(environment={"HOME": str(home)}).home.is_relative_to(home)
    process = start("--json", "--no-server", PENSTOCK_HOME="", XDG_DATA_HOME="", HOME=str(home))
    data = home / ".local" / "share" / "penstock" / "server" / "postgres"
    assert ready(process)["data_directory"] == str(data)
    assert server_runs(home)


def test_a_person_sees_the_dsn_and_three_commands_that_work(start: Start, home: Path) -> None:
    process = start()
    assert process.stdout is not None
    lines = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()
    text = "".join(lines)
    assert f"Data directory: {home}/server/postgres\n" in text
    assert "already running" not in text
    assert "psk_" not in text
    assert f"host={str(home).replace('/', '%2F')}" in text
    script = text.partition("terminal:\n")[2].partition("Ctrl-C")[0]
    assert len(script.splitlines()) == 4  # they, and the DSN for them
    tried = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=False)
    assert (tried.returncode, tried.stderr) == (0, "")
    assert '{"to": "you"}' in tried.stdout
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "stopped\n")


@pytest.mark.parametrize(
    ("argv0", "found", "name"),
    [
        ("{bin}/penstock", True, "penstock"),
        ("{bin}/penstock", False, "{bin}/penstock"),
        ("cli/__main__.py", True, "penstock"),
        ("cli/__main__.py", False, f"{sys.executable} -m penstock.cli"),
    ],
)
def test_the_commands_name_the_program_as_a_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv0: str, found: bool, name: str
) -> None:
    script = tmp_path / "penstock"
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [argv0.format(bin=tmp_path)])
    monkeypatch.setenv("PATH", str(tmp_path) if found else "")
    assert program_name() == name.format(bin=tmp_path)


def test_the_data_are_there_again_the_next_time(start: Start) -> None:
    first = start("--json")
    with psycopg.connect(ready(first)["dsn"]) as connection:
        connection.execute("select penstock.create_queue('kept')")
    first.terminate()
    first.communicate()
    second = start("--json")
    with psycopg.connect(ready(second)["dsn"]) as connection:
        assert connection.execute("select name from penstock.queues").fetchall() == [("kept",)]


def test_two_share_one_server_and_the_last_one_stops_it(start: Start, home: Path) -> None:
    first, second = start("--json"), start("--json")
    dsn = ready(first)["dsn"]
    assert ready(second)["dsn"] == dsn
    first.terminate()
    first.communicate()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    second.terminate()
    second.communicate()
    assert not server_runs(home)


def test_a_database_that_is_named_is_migrated_and_left_running(
    start: Start, home: Path, empty_dsn: str
) -> None:
    refused = start("--json", PENSTOCK_DSN=empty_dsn)
    out, err = refused.communicate()
    assert refused.returncode == 2
    assert "no API key" in out + err, "none is made unasked in the user's database"
    create_key = [*COMMAND, "key", "create", "admin", "--scope", "admin", "--dsn", empty_dsn]
    subprocess.run(create_key, check=True, capture_output=True)
    process = start("--json", PENSTOCK_DSN=empty_dsn)
    found = ready(process)
    assert (found["embedded"], found["dsn"]) == (False, empty_dsn)
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select count(*) from penstock.queues").fetchone() == (0,)
    assert not server_runs(home)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in without_password("postgresql://ada:secret@db/app")
    assert "host=db" in without_password("postgresql://ada:secret@db/app")
    assert without_password("postgresql://ada@db/app") == "postgresql://ada@db/app"


@pytest.mark.parametrize(
    ("argv", "environment", "code", "says"),
    [
        (["now"], {}, 2, "unexpected extra argument"),
        (["--dsn", "mysql://host/db"], {}, 2, "not PostgreSQL"),
        (["--dsn", "postgresql://nobody@127.0.0.1:1/none"], {}, 6, "not available"),
        ([], {"PENSTOCK_HOME": "/dev/null"}, 2, "PENSTOCK_HOME"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    start: Start, home: Path, argv: list[str], environment: dict[str, str], code: int, says: str
) -> None:
    process = start(*argv, **environment)
    out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (code, "", 1)
    assert says in err
    assert not server_runs(home)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "end", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_finished_messages_are_in_the_lake_without_being_asked(
    start: Start, home: Path, end: signal.Signals
) -> None:
    process = start("--json", "--no-server", lake=True)
    found = ready(process)
    assert found["lake"] == str(home / "lake")
    with psycopg.connect(found["dsn"], autocommit=True) as connection:
        connection.execute("select penstock.create_queue('hello')")
        connection.execute("select penstock.enqueue('hello', '1')")
        connection.execute("select penstock.ack(id, token) from penstock.claim('hello')")
        published = "select sum(finished) from penstock.gold_queue_day"
        while connection.execute(published).fetchone() != (1,):
            assert process.poll() is None
            time.sleep(0.2)
    lakes = [pid for pid in children(process.pid) if "up_lake" in command_line(pid)]
    assert len(lakes) == 1
    process.send_signal(end)
    process.communicate()
    while command_line(lakes[0]) or server_runs(home):
        time.sleep(0.1)
    assert process.returncode == (0 if end is signal.SIGINT else -end)
