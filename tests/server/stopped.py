"""A PostgreSQL of a test's own that can be stopped as it is: it takes connections, silently."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator


class Stoppable:
    """SIGSTOP to all processes of a server, and SIGCONT."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.dsn = server.dsn
        self._server = server

    def stop(self) -> None:
        """The postmaster first: it makes no more of them then."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        postmaster = self._server.pid
        assert postmaster is not None
        os.kill(postmaster, number)
        for pid in _children(postmaster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _children(parent: int) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            after_name = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2]
            if int(after_name.split()[1]) == parent:
                found.append(int(pid))
    return found


@contextlib.contextmanager
def stoppable(pg_bin: Path) -> Iterator[Stoppable]:
    """A server with the schema in it; it continues, and ends, with the block."""
    home = Path(tempfile.mkdtemp(prefix="penstock-stopped-"))
    home.chmod(0o755)
    try:
        with EmbeddedPostgres.start(home, bin_dir=pg_bin) as server:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                Migrator(connection).up()
            made = Stoppable(server)
            try:
                yield made
            finally:
                made.go_on()
    finally:
        shutil.rmtree(home, ignore_errors=True)
