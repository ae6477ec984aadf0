"""Users and servers killed at random moments, again and again: nothing committed is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.db.embedded import EmbeddedPostgres, postmaster

# Says each note's name only after it is committed, and continues after the server was killed.
WRITER = """
import itertools, sys, psycopg
from penstock.db.embedded import EmbeddedPostgres
from penstock.errors import DatabaseUnavailableError
for n in itertools.count():
    try:
        with EmbeddedPostgres.start(sys.argv[1]) as server, psycopg.connect(server.dsn) as c:
            c.execute("create table if not exists note (text text)")
            c.execute("insert into note values (%s)", [f"{sys.argv[2]}-{n}"])
    except (psycopg.Error, DatabaseUnavailableError):
        continue
    print(f"{sys.argv[2]}-{n}", flush=True)
"""


class Writer:
    def __init__(self, home: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), name], stdout=subprocess.PIPE, text=True
        )

    def end(self) -> list[str]:
        """Kills it, and returns the notes that it had committed."""
        self.process.kill()
        return self.process.communicate()[0].split()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_committed_note_is_lost_by_forty_random_kills(
    home: Path, notes: Callable[[EmbeddedPostgres], list[str]]
) -> None:
    chance = random.Random(7)
    writers = [Writer(home, f"start-{n}") for n in range(3)]
    committed: list[str] = []
    for turn in range(40):
        with contextlib.suppress(subprocess.TimeoutExpired):
            writers[0].process.wait(chance.uniform(0.05, 1.0))
        if chance.random() < 0.5:
            server = postmaster.running(home / "server" / "postgres")
            if server is not None:
                os.kill(server.pid, signal.SIGKILL)
        else:
            victim = chance.randrange(len(writers))
            committed += writers[victim].end()
            writers[victim] = Writer(home, f"turn-{turn}")
    for writer in writers:
        assert writer.process.poll() is None
        committed += writer.end()
    with EmbeddedPostgres.start(home) as server:
        assert set(committed) <= set(notes(server))
    assert len(committed) > 40
