"""A real server on a real socket, for each test, on its own database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from penstock.commands.command import Command
from penstock.db.embedded import EmbeddedPostgres
from penstock.db.sync_connections import Connections
from penstock.server.auth.api_keys import new_key

Running = Any
Serve = Callable[..., Running]


@pytest.fixture
def run(dsn: str) -> Iterator[Callable[[Command[Any]], Any]]:
    """Runs commands on the test's database, next to the server."""
    connections = Connections(dsn, None, min_size=1, max_size=1, timeout=60, prepare_threshold=None)
    yield connections.run
    connections.close()


@pytest.fixture
def start_server(dsn: str, serve: Serve) -> Iterator[Serve]:
    """Starts servers on the test's database, and stops them in the end."""
    started: list[Running] = []

    def start(**settings: Any) -> Running:
        started.append(serve(dsn, **settings))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def web(start_server: Callable[..., Running]) -> Running:
    return start_server()


@pytest.fixture
def make_key(run: Callable[[Command[Any]], Any]) -> Callable[..., str]:
    """Makes keys: `make_key("reader", "read:orders")` is its token."""

    def make(name: str, *scopes: str, **options: Any) -> str:
        made = new_key(name, scopes, **options)
        run(made.command)
        return made.token

    return make


@pytest.fixture
def open_client(web: Running) -> Iterator[Callable[..., httpx.Client]]:
    """Opens HTTP clients with a key."""
    opened: list[httpx.Client] = []

    def make(key: str | None = None, running: Running = web, **options: Any) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        client = httpx.Client(
            base_url=running.url, headers=headers, timeout=60, verify=False, **options
        )
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def http(open_client: Callable[..., httpx.Client], make_key: Callable[..., str]) -> httpx.Client:
    """A client that may do everything."""
    return open_client(make_key("admin", "admin"))


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def shared(server: EmbeddedPostgres, template: str, serve: Serve) -> Iterator[httpx.Client]:
    """An admin's client of a server that many tests share: each uses its own names."""
    name = f"shared_{uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template}")
        dsn = server.dsn_of(name)
        running = serve(dsn)
        headers = {"Authorization": f"Bearer {running.make_key('admin', 'admin')}"}
        with httpx.Client(
            base_url=running.url, headers=headers, timeout=60, verify=False
        ) as client:
            yield client
        running.stop()
        admin.execute(f"drop database {name} with (force)")


@dataclass
class Process:
    """`penstock up`, ready."""

    popen: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        self.popen.kill()
        self.popen.communicate()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        self.popen.communicate()
        return self.popen.returncode

    def memory_bytes(self, which: str = "VmRSS") -> int:
        """What it holds in memory now, or at most so far (`VmHWM`)."""
        with open(f"/proc/{self.popen.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith(which))
        return int(line.split()[1]) * 1024


def _start_process(dsn: str, *argv: str, **environment: str) -> Process:
    """Starts it on a database and a free port, and waits until it answers."""
    usual = {"PENSTOCK_HTTP_PORT": "0", "PENSTOCK_HTTP_ACCESS_LOG": "off"}
    popen = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "up", "--json", "--dsn", dsn, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **usual, **environment},
    )
    assert popen.stdout is not None
    found: dict[str, Any] = json.loads(popen.stdout.readline())
    return Process(popen, found["url"])


@pytest.fixture
def start_process(dsn: str, make_key: Callable[..., str]) -> Iterator[Callable[..., Process]]:
    """Starts servers as processes on the test's database, and ends what is left of them."""
    make_key("somebody", "read")  # none starts without a key
    started: list[Process] = []

    def start(*argv: str, **environment: str) -> Process:
        started.append(_start_process(dsn, *argv, **environment))
        return started[-1]

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.kill()
