"""Homes to run servers in, and processes that use them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from penstock.db.embedded import EmbeddedPostgres, postmaster

# Uses the server until its input ends.
USER_PROGRAM = """
import os, sys
from penstock.db.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(sys.argv[1])
print(server.pid, server.dsn, flush=True)
sys.stdin.read()
server.stop()
"""


class User:
    """Another process that uses the server of a home."""

    def __init__(self, home: Path, program: str = USER_PROGRAM) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def joined(self) -> int:
        """Waits until it has the server, and says which one: its pid."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline().split()[0])

    def leave(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        with self.process:  # closes the pipes, and waits
            pass


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory with a short name that other users can pass through.

    pytest's own tmp_path is neither.
    """
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    directory = Path(tempfile.mkdtemp(prefix="pens-", dir=memory if usable else "/tmp"))
    directory.chmod(0o711)
    yield directory
    for data in directory.glob("**/server/postgres"):
        postmaster.stop(data)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def home(place: Path) -> Path:
    return place / "home"


@pytest.fixture
def users(home: Path) -> Iterator[Callable[..., User]]:
    """Starts processes that use the server, and ends those that a test left."""
    started: list[User] = []

    def start(program: str = USER_PROGRAM) -> User:
        started.append(User(home, program))
        return started[-1]

    yield start
    for user in started:
        user.kill()


@pytest.fixture
def ends(home: Path) -> Callable[[int], bool]:
    """Whether the server with this pid ends in time."""
    return lambda pid: postmaster.ends_within(30, pid, home / "server" / "postgres")


@pytest.fixture
def write() -> Callable[[EmbeddedPostgres, str], None]:
    """Commits a note in the server."""

    def commit(server: EmbeddedPostgres, text: str) -> None:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table if not exists note (text text)")
            connection.execute("insert into note values (%s)", [text])

    return commit


@pytest.fixture
def notes() -> Callable[[EmbeddedPostgres], list[str]]:
    """The notes that the server has."""

    def read(server: EmbeddedPostgres) -> list[str]:
        with psycopg.connect(server.dsn) as connection:
            return [row[0] for row in connection.execute("select text from note order by 1")]

    return read
