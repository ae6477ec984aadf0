"""A real PostgreSQL for every test: one server for the whole run, one database for each test.

`PENSTOCK_TEST_PG=16` or `15` runs the tests on another version than 18.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from tests.held import HOLD_FROM, hold_from

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.embedded.binaries import wheel_bin_directory
from penstock.db.embedded.postmaster import TURN_LOCK, USE_LOCK, is_free
from penstock.db.migrations import Migrator
from penstock.settings import fast_paths

Connect = Callable[..., psycopg.Connection[Any]]

# Nothing here outlives the run, so nothing has to reach the disk.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "autovacuum_naptime": "5s",
}
TEMPLATE = "penstock_template"
# Services of the tests are reached by sockets, and have passwords.
os.environ["PENSTOCK_SERVICE_PATHS"] = f"/dev/shm:{tempfile.gettempdir()}"
# A test's Spark ends before Java's second compiler pays off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
os.environ["PENSTOCK_SECRET_KEY"] = "zkGa6wXeyM5sLZp2lY4lq3oB1n2Yt1cV1Z5VqJ0t0xM="

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")


def pytest_configure() -> None:
    """Stop ignoring signals, which processes started by the tests would inherit.

    A shell starts background commands with SIGINT ignored, and nohup ignores SIGHUP.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if fast_paths():
        return
    for item in items:
        if marker := item.get_closest_marker("fast_paths"):
            item.add_marker(
                pytest.mark.skip(reason=f"needs PENSTOCK_FAST_PATHS=on: {marker.args[0]}")
            )


@pytest.fixture(scope="session")
def pg_bin() -> Path:
    """The server programs of the version under test."""
    version = os.environ.get("PENSTOCK_TEST_PG", "18")
    if version in ("16", "18"):
        return wheel_bin_directory(int(version))
    installed = Path(f"/usr/lib/postgresql/{version}/bin")
    if not installed.exists():
        pytest.exit(f"PENSTOCK_TEST_PG={version}: there is no {installed}")
    return installed


@pytest.fixture(scope="session")
def server(pg_bin: Path, testrun_uid: str) -> Iterator[EmbeddedPostgres]:
    """One server, shared by the workers of a run as any processes share one."""
    place = _fastest_place()
    for left in place.glob("penstock-test-*/use.lock"):
        with contextlib.suppress(OSError):
            # A young one may be of a run that is about to take its lock.
            if time.time() - left.stat().st_mtime > 600:
                _clear(left.parent)
    home = place / f"penstock-test-{testrun_uid}"
    with EmbeddedPostgres.start(home, bin_dir=pg_bin, settings=FAST) as server:
        yield server
    _clear(home)


def _clear(home: Path) -> None:
    """Removes a home that is not in use: this run's, or that of a run that was killed."""
    with contextlib.suppress(OSError):  # another worker may be at it, too
        if is_free(home / USE_LOCK) and is_free(home / TURN_LOCK):
            shutil.rmtree(home)


def _fastest_place() -> Path:
    """Memory, if there is enough: cloning a database took 420 ms on a disk and 20 ms there."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 2**30
    return memory if roomy and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _exists(admin: psycopg.Connection[Any], database: str) -> bool:
    query = "select 1 from pg_database where datname = %s"
    return admin.execute(query, [database]).fetchone() is not None


@pytest.fixture(scope="session")
def template(server: EmbeddedPostgres) -> str:
    """The name of a database with the schema in it, to clone; the first worker makes it."""
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(1)")
        if not _exists(admin, TEMPLATE):
            admin.execute("create database being_made")
            with psycopg.connect(server.dsn_of("being_made"), autocommit=True) as made:
                Migrator(made).up()
                hold_from(made, HOLD_FROM)
            admin.execute(
                sql.SQL("alter database being_made rename to {}").format(sql.Identifier(TEMPLATE))
            )
    return TEMPLATE


@pytest.fixture
def make_database(server: EmbeddedPostgres) -> Iterator[Callable[[str], str]]:
    """Makes databases from a template, answers with their DSN, and drops them in the end."""
    made: list[str] = []
    with psycopg.connect(server.dsn, autocommit=True) as admin:

        def make(template: str) -> str:
            # As files: half the time of writing all of it to the log.
            name = f"test_{uuid4().hex[:12]}"
            admin.execute(
                sql.SQL("create database {} template {} strategy file_copy").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
            made.append(name)
            return server.dsn_of(name)

        yield make
        for name in made:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def dsn(make_database: Callable[[str], str], template: str) -> str:
    """A database of this test's own, with the schema in it."""
    return make_database(template)


@pytest.fixture
def empty_dsn(make_database: Callable[[str], str]) -> str:
    """A database of this test's own, with nothing in it."""
    return make_database("template0")


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Opens connections, in autocommit by default, and closes them in the end.

    To the test's `dsn`, or to the one given.
    """
    opened: list[psycopg.Connection[Any]] = []

    def make(dsn: str | None = None, **options: Any) -> psycopg.Connection[Any]:
        target = dsn or request.getfixturevalue("dsn")
        connection = psycopg.connect(target, **{"autocommit": True, **options})
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.close()


@dataclass
class Running:
    """An HTTP server that answers, in its own thread."""

    url: str
    server: Any
    thread: threading.Thread
    run: Callable[[Any], Any]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(90)
        assert not self.thread.is_alive()

    def make_key(self, name: str, *scopes: str, **options: Any) -> str:
        """A new key for it; its token."""
        from penstock.server.auth.api_keys import new_key

        made = new_key(name, scopes, **options)
        self.run(made.command)
        return made.token


@pytest.fixture(scope="session")
def serve() -> Callable[..., Running]:
    """Starts an HTTP server on a database; who starts it stops it."""
    # Only here: most tests have no use for the web framework.
    import uvloop

    from penstock.db.sync_connections import Connections
    from penstock.server.settings import ServerSettings
    from penstock.server.transport.serving import listen, make_server, url_of

    def start(dsn: str, **settings: Any) -> Running:
        def run(command: Any) -> Any:
            connections = Connections(
                dsn, None, min_size=1, max_size=1, timeout=60, prepare_threshold=None
            )
            try:
                return connections.run(command)
            finally:
                connections.close()

        chosen = ServerSettings(**{"port": 0, "pool": 4, "access_log": "off", **settings})
        listening, ready = listen(chosen), threading.Event()
        server = make_server(dsn, chosen, ready.set)
        thread = threading.Thread(target=lambda: uvloop.run(server.serve([listening])))
        thread.start()
        assert ready.wait(90)
        return Running(url_of(listening), server, thread, run)

    return start
