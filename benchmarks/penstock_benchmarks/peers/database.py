"""The server that all peers share, and what can be read from it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg

from penstock.db.embedded import EmbeddedPostgres
from penstock_benchmarks.machine import server

DATABASE_SETTINGS = {
    "max_connections": "300",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "log_min_messages": "fatal",
}

_GAUGES = """
select (pg_current_wal_insert_lsn() - '0/0')::bigint,
       (pg_snapshot_xmax(pg_current_snapshot())::text)::bigint
"""
_WEIGHT = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint,
       coalesce(sum(pg_stat_get_dead_tuples(c.oid)), 0)::bigint
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname || '.' || c.relname like any (%s)
"""
_FILLED = """
select c.oid::regclass::text
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname || '.' || c.relname like any (%s)
   and pg_relation_size(c.oid) > 0
"""
_VACUUMING = "select 1 from pg_stat_activity where backend_type = 'autovacuum worker'"
REST_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Gauges:
    """Counters of the whole server; the difference of two is what happened in between."""

    at: float
    wal_bytes: int
    transactions: int
    cpu_seconds: float | None

    def since(self, before: Self) -> dict[str, float | None]:
        cpu = None
        if self.cpu_seconds is not None and before.cpu_seconds is not None:
            cpu = self.cpu_seconds - before.cpu_seconds
        return {
            "wal_bytes": self.wal_bytes - before.wal_bytes,
            "transactions": self.transactions - before.transactions,
            "cpu_seconds": cpu,
        }


class Database:
    """A separate PostgreSQL for the run, in the directory TMPDIR."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = {**DATABASE_SETTINGS, **settings}
        self._home = Path(tempfile.mkdtemp(prefix="penstock-peers-"))
        self._server = EmbeddedPostgres.start(self._home, settings=self._settings)
        self.dsn = self._server.dsn
        self._connection: psycopg.Connection[Any] | None = None
        # The role is called as our schema is: tables that a peer names without a schema would be
        # made in it, and be weighed and vacuumed as ours.
        self.connection.execute("alter role current_user set search_path = public")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
        self._server.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The benchmark's own; a new one after a restart."""
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = psycopg.connect(
                self.dsn,
                autocommit=True,
                application_name="penstock-peers",
                # A look at the database must not wait for locks of a peer.
                options="-c statement_timeout=60s",
            )
        return self._connection

    def about(self) -> dict[str, Any]:
        found = server(self.connection)
        return {key: found[key] for key in ("version", "settings")}

    def gauges(self) -> Gauges:
        row = self.connection.execute(_GAUGES).fetchone()
        assert row is not None
        return Gauges(time.monotonic(), row[0], row[1], self._cpu_seconds())

    def weight(self, relations: Sequence[str]) -> dict[str, int]:
        """Bytes on disk and dead rows of a peer's tables."""
        row = self.connection.execute(_WEIGHT, [list(relations)]).fetchone()
        assert row is not None
        return {"disk_bytes": row[0], "dead_tuples": row[1]}

    def come_to_rest(self) -> None:
        """Vacuum, analyze and checkpoint after a load, so that no measured window pays for it."""
        deadline = time.monotonic() + REST_SECONDS
        while self.connection.execute(_VACUUMING).fetchone() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.connection.execute("checkpoint")

    def vacuum(self, relations: Sequence[str]) -> None:
        """What autovacuum would do to a peer's tables, now instead of some time soon."""
        self._each("vacuum (skip_locked)", relations)

    def analyze(self, relations: Sequence[str]) -> None:
        """So that plans are made for what is there, not for what was there a minute ago."""
        self._each("analyze (skip_locked)", relations)

    def _each(self, verb: str, relations: Sequence[str]) -> None:
        rows = self.connection.execute(_FILLED, [list(relations)]).fetchall()
        if rows:
            self.connection.execute(f"{verb} {', '.join(name for (name,) in rows)}")

    def restart(self) -> None:
        """As an upgrade or a failover would: every connection is cut."""
        pid = self._server.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        while _alive(pid):
            time.sleep(0.01)
        again = EmbeddedPostgres.start(self._home, settings=self._settings)
        again, self._server = self._server, again
        again.stop()
        # Ours was cut as well, and would find out at its next use.
        if self._connection is not None:
            self._connection.close()

    def terminate_one(self) -> bool:
        """End some client's connection, not the benchmark's own."""
        query = (
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
            "current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() "
            "and application_name not like 'penstock-peers%' order by random() limit 1"
        )
        return self.connection.execute(query).fetchone() is not None

    def _cpu_seconds(self) -> float | None:
        """Of the server and all its processes, those that have ended too."""
        pid = self._server.pid
        if pid is None or not Path("/proc/self/stat").exists():
            return None
        own = _times(pid)
        if own is None:
            return None
        ticks = sum(own)
        for child in _children(pid):
            times = _times(child)
            if times is not None:
                ticks += times[0] + times[1]
        return ticks / _TICKS


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def _times(pid: int) -> tuple[int, int, int, int] | None:
    """User and system time of a process, and of its children that have ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) for field in fields[11:15])
    return user, system, children_user, children_system


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]
