"""The PostgreSQL that is broken, and the pooler in front of it, both on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from penstock.db.embedded.account import Account, choose
from penstock.db.embedded.binaries import usable_by, wheel_bin_directory
from penstock.db.migrations import Migrator

MAX_CONNECTIONS = 320
SETTINGS = f"""
listen_addresses = '127.0.0.1'
max_connections = {MAX_CONNECTIONS}
shared_buffers = 256MB
max_wal_size = 4GB
checkpoint_timeout = 15min
jit = off
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A separate cluster: fsync on, TCP on loopback, all users trusted."""

    def __init__(self, place: Path, major: int = 18) -> None:
        self.place = place
        self.port = free_port()
        self.data = place / "data"
        self.account = choose(place, self.data)
        self.account.give(place)
        self.bin = usable_by(self.account, wheel_bin_directory(major))
        self._run("initdb", "-D", "data", "-U", "chaos", "-A", "trust", "-E", "UTF8", "--locale=C")
        extra = f"{SETTINGS}port = {self.port}\nunix_socket_directories = '{place}'\n"
        self.account.run(["sh", "-c", "cat >> data/postgresql.conf"], cwd=place, text=extra)
        self._pg_ctl("start")
        self.create_database()
        with self.connect() as connection:
            Migrator(connection).up()

    def create_database(self) -> None:
        """Replaces the database, if there is one, by an empty one."""
        with self.connect("postgres") as connection:
            connection.execute("drop database if exists chaos with (force)")
            connection.execute("create database chaos")

    def dsn(self, port: int | None = None, database: str = "chaos") -> str:
        return f"postgresql://chaos@127.0.0.1:{port or self.port}/{database}"

    def connect(self, database: str = "chaos", **options: Any) -> psycopg.Connection[Any]:
        """A connection of the harness's own, past the pooler."""
        options = {"autocommit": True, "application_name": "harness", **options}
        return psycopg.connect(self.dsn(database=database), **options)

    def restart(self, mode: str) -> None:
        self._pg_ctl("restart", "-m", mode)

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._pg_ctl("stop", "-m", "immediate")

    def _pg_ctl(self, *arguments: str) -> None:
        verb, *rest = arguments
        self._run("pg_ctl", verb, *rest, "-D", "data", "-l", "log", "-w", "-t", "120")

    def _run(self, program: str, *arguments: str) -> None:
        done = self.account.run([self.bin / program, *arguments], cwd=self.place)
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stdout[-2000:]}")


def program_of(name: str) -> str | None:
    """Where a program is; Debian keeps servers out of the PATH of ordinary users."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


POOLER = """
[databases]
chaos = host=127.0.0.1 port={server} dbname=chaos user=chaos
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
logfile = {place}/pgbouncer.log
pidfile = {place}/pgbouncer.pid
"""


class Pooler:
    """pgbouncer, in transaction mode."""

    def __init__(self, server: Server) -> None:
        program = program_of("pgbouncer")
        assert program is not None
        self.port = free_port()
        text = POOLER.format(server=server.port, port=self.port, place=server.place)
        server.account.run(["sh", "-c", "cat > pgbouncer.ini"], cwd=server.place, text=text)
        self.process = start_as(server.account, [program, "-q", "pgbouncer.ini"], server.place)
        wait_for_port(self.port)

    def stop(self) -> None:
        end(self.process)


def start_as(account: Account, command: list[str], place: Path) -> subprocess.Popen[bytes]:
    as_user: dict[str, Any] = {}
    if not account.is_self:
        as_user = {"user": account.uid, "group": account.gid, "extra_groups": []}
    with (place / "pooler.out").open("ab") as log:
        return subprocess.Popen(command, cwd=place, stdout=log, stderr=log, **as_user)


def wait_for_port(port: int) -> None:
    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_for(answers, f"port {port} answers", 30)


def wait_for(condition: Callable[[], Any], what: str, limit: float) -> Any:
    deadline = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit:g} s: {what}")
        time.sleep(0.05)
    return found


def end(process: subprocess.Popen[Any], patience: float = 10) -> None:
    """Ends one of our processes, with SIGTERM first."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def held(connections: int, connect: Callable[[], psycopg.Connection[Any]]) -> Iterator[int]:
    """Idle connections, as many as the server gives up to this number; how many it gave."""
    opened: list[psycopg.Connection[Any]] = []
    try:
        with contextlib.suppress(psycopg.OperationalError):
            while len(opened) < connections:
                opened.append(connect())
        yield len(opened)
    finally:
        for connection in opened:
            with contextlib.suppress(psycopg.Error):
                connection.close()
