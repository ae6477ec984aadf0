"""Who starts the server, who keeps it, and who stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.db import embedded
from penstock.db.embedded import EmbeddedPostgres, connect_dsn, postmaster
from penstock.settings import Settings

Users = Callable[..., Any]
Ends = Callable[[int], bool]

FORKING_PROGRAM = """
import os, sys
from penstock.db.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(sys.argv[1])
if os.fork():
    server.stop()
    print(server.pid or 0, flush=True)
    os._exit(0)
sys.stdin.read()
"""

SHORT_PROGRAM = """
import sys
from pathlib import Path
from penstock.db.embedded import connect_dsn
from penstock.settings import Settings
home = Path(sys.argv[1])
assert connect_dsn(Settings(None, home)) == connect_dsn(Settings(None, home))
print((home / "server/postgres/postmaster.pid").read_text().split()[0])
"""


def test_two_processes_share_one_server_and_the_last_one_out_stops_it(
    users: Users, ends: Ends, home: Path
) -> None:
    first = users()
    pid = first.joined()
    second = users()
    assert second.joined() == pid
    first.leave()
    data = home / "server" / "postgres"
    assert postmaster.lives(pid, data)
    second.leave()
    assert not postmaster.lives(pid, data)


def test_processes_that_start_at_once_on_an_empty_home_get_the_same_server(
    users: Users, ends: Ends
) -> None:
    crowd = [users() for _ in range(4)]
    pids = {user.joined() for user in crowd}
    assert len(pids) == 1
    for user in crowd:
        user.leave()
    assert ends(pids.pop())


def test_handles_of_one_process_count_one_by_one(home: Path) -> None:
    first, second = EmbeddedPostgres.start(home), EmbeddedPostgres.start(home)
    first.stop()
    first.stop()
    assert second.pid is not None
    second.stop()
    assert second.pid is None


def test_a_killed_process_does_not_take_the_server_from_under_others(
    users: Users, home: Path
) -> None:
    with EmbeddedPostgres.start(home) as server:
        user = users()
        user.joined()
        user.kill()
        with psycopg.connect(server.dsn) as connection:
            connection.execute("select 1")
    assert server.pid is None


def test_a_server_does_not_outlive_users_that_were_all_killed(users: Users, ends: Ends) -> None:
    crowd = [users(), users()]
    pids = {user.joined() for user in crowd}
    for user in crowd:
        user.kill()
    assert ends(pids.pop())


def test_a_new_keeper_takes_the_place_of_a_killed_one(users: Users, ends: Ends, home: Path) -> None:
    first = users()
    pid = first.joined()
    os.kill(keeper_of(home), signal.SIGKILL)
    second = users()
    assert second.joined() == pid
    first.kill()
    second.kill()
    assert ends(pid)


def keeper_of(home: Path) -> int:
    """The keeper's process: it has the home on its command line."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return next(int(p.split()[0]) for p in listed if "postmaster.py" in p and str(home) in p)


def test_a_forked_child_goes_on_when_its_parent_leaves(users: Users, ends: Ends) -> None:
    parent = users(FORKING_PROGRAM)
    pid = parent.joined()
    assert pid != 0
    parent.process.stdin.close()  # ends the child
    assert ends(pid)


def test_connect_dsn_holds_the_server_until_the_process_ends(users: Users, ends: Ends) -> None:
    user = users(SHORT_PROGRAM)
    pid = user.joined()
    user.leave()
    assert ends(pid)


def test_connect_dsn_leaves_a_named_database_alone(home: Path) -> None:
    assert connect_dsn(Settings("postgresql://db.example/shop", home)) == (
        "postgresql://db.example/shop"
    )
    assert not home.exists()


def test_connect_dsn_starts_the_server_again_after_a_crash(home: Path, ends: Ends) -> None:
    settings = Settings(None, home)
    try:
        dsn = connect_dsn(settings)
        server = postmaster.running(home / "server" / "postgres")
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        assert ends(server.pid)
        assert connect_dsn(settings) == dsn
        with psycopg.connect(dsn) as connection:
            connection.execute("select 1")
    finally:
        embedded._release()


def test_a_removed_home_does_not_break_the_stop(home: Path, place: Path) -> None:
    server = EmbeddedPostgres.start(home)
    pid = server.pid
    home.rename(place / "moved")
    server.stop()
    assert pid is not None
    postmaster.stop((place / "moved" / "server" / "postgres").resolve())


@pytest.mark.skipif(sys.platform != "linux", reason="PostgreSQL handles it elsewhere")
def test_nobody_waits_for_a_server_that_is_already_gone(home: Path) -> None:
    with EmbeddedPostgres.start(home) as server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
    assert server.pid is None
    with EmbeddedPostgres.start(home):
        pass  # only a next start clears the shared memory of a killed server
