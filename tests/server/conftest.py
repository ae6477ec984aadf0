"""A real server on a real socket, for each test, on a database of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
import uvloop

from penstock.command import Command
from penstock.connections import Connections
from penstock.server.keys import new_key
from penstock.server.serving import Server, listen, make_server, url_of
from penstock.server.settings import ServerSettings

QUIET = {"port": 0, "pool": 4, "access_log": "off"}


@dataclass
class Running:
    """A server that answers."""

    url: str
    server: Server
    thread: threading.Thread

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def run(dsn: str) -> Iterator[Callable[[Command[Any]], Any]]:
    """Runs commands on the test's database, beside the server."""
    connections = Connections(dsn, None, min_size=1, max_size=1, timeout=10, prepare_threshold=None)
    yield connections.run
    connections.close()


@pytest.fixture
def start_server(dsn: str) -> Iterator[Callable[..., Running]]:
    """Starts servers on the test's database, and stops them in the end."""
    started: list[Running] = []

    def start(target: str = dsn, **settings: Any) -> Running:
        chosen = ServerSettings(**{**QUIET, **settings})
        listening, ready = listen(chosen), threading.Event()
        server = make_server(target, chosen, ready.set)
        thread = threading.Thread(target=lambda: uvloop.run(server.serve([listening])))
        thread.start()
        assert ready.wait(30)
        running = Running(url_of(listening), server, thread)
        started.append(running)
        return running

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
