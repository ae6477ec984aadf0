"""The use of the embedded server by one process. It runs as long as any process uses it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from penstock.db.embedded import postmaster
from penstock.db.embedded.cluster import PORT, USER, Cluster
from penstock.errors import ConfigurationError, DatabaseUnavailableError

DATABASE: Final = "penstock"


class EmbeddedPostgres:
    """A handle. `start` makes one, and `stop` releases it. The last release stops the server."""

    def __init__(
        self, home: Path, use: int, cluster: Cluster, socket_directory: Path, joined: bool
    ) -> None:
        self.home = home
        self.joined = joined  # the server was already running
        self.data_directory = cluster.data
        self.log_file = cluster.log
        self._socket_directory = socket_directory
        self._use: int | None = use

    @classmethod
    def start(
        cls,
        home: Path | str,
        *,
        bin_dir: Path | str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> EmbeddedPostgres:
        """Starts the server of this home, or joins the running one.

        `bin_dir` names another PostgreSQL than that of the wheel. `settings` are server settings.
        Both have an effect only if this call starts the server.
        """
        home = Path(home)
        try:
            return cls._join(home, Path(bin_dir) if bin_dir else None, settings or {})
        except OSError as error:
            raise ConfigurationError(
                f"the embedded PostgreSQL cannot use {error.filename or home}: {error.strerror}",
                hint="Set PENSTOCK_HOME to a directory that can be written.",
            ) from error

    @classmethod
    def _join(
        cls, home: Path, bin_dir: Path | None, settings: Mapping[str, str]
    ) -> EmbeddedPostgres:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home = home.resolve()
        with postmaster.turn(home):
            use = postmaster.open_lock(home / postmaster.USE_LOCK)
            try:
                fcntl.flock(use, fcntl.LOCK_SH)
                cluster = Cluster(home, bin_dir)
                cluster.create()
                _ensure_keeper(home, cluster.data)
                joined = postmaster.running(cluster.data) is not None
                return cls(home, use, cluster, _usable_server(cluster, settings), joined)
            except BaseException:
                os.close(use)
                raise

    @property
    def dsn(self) -> str:
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """The DSN of another database on this server."""
        return _dsn(self._socket_directory, database)

    @property
    def pid(self) -> int | None:
        """The process of the server, if it is running."""
        server = postmaster.running(self.data_directory)
        return server.pid if server else None

    def stop(self) -> None:
        """Releases the handle. If it was the last one, returns after the server has stopped."""
        if self._use is None:
            return
        use, self._use = self._use, None
        try:
            with postmaster.turn(self.home):
                # Closed, not unlocked, because a forked child shares the lock and still uses it.
                os.close(use)
                postmaster.stop_if_unused(self.home, self.data_directory)
        except FileNotFoundError:
            os.close(use)  # the home was removed; its server will notice that

    def __enter__(self) -> EmbeddedPostgres:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _dsn(socket_directory: Path, database: str) -> str:
    # With the port, because libpq would otherwise use PGPORT.
    host = quote(str(socket_directory), safe="")
    return f"postgresql://{USER}@/{quote(database, safe='')}?host={host}&port={PORT}"


def _ensure_keeper(home: Path, data: Path) -> None:
    """The server works without a keeper, but may outlive users that were all killed."""
    if not sys.executable or not postmaster.is_free(home / postmaster.KEEPER_LOCK):
        return
    subprocess.run(
        [sys.executable, "-E", "-S", postmaster.__file__, str(home), str(data)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def _usable_server(cluster: Cluster, settings: Mapping[str, str]) -> Path:
    """The socket directory of a server that answers. A server that is shutting down is replaced."""
    while True:
        server = cluster.ensure_running(settings)
        if server.socket_directory is None:
            raise DatabaseUnavailableError(
                f"the PostgreSQL in {cluster.data} was started by other software, without a socket",
                hint="Stop it, then try again.",
            )
        try:
            _ensure_database(server.socket_directory)
        except psycopg.Error as error:
            if not postmaster.ends_within(5.0, server.pid, cluster.data):
                raise DatabaseUnavailableError(
                    f"the embedded PostgreSQL runs, but cannot be used: {error}",
                    hint=f"See {cluster.log}.",
                ) from error
        else:
            return server.socket_directory


def _ensure_database(socket_directory: Path) -> None:
    with psycopg.connect(_dsn(socket_directory, "postgres"), autocommit=True) as connection:
        query = "select from pg_database where datname = %s"
        if connection.execute(query, [DATABASE]).fetchone() is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
