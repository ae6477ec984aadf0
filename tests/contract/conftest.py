"""One contract, several ways to speak it: each test here runs over every adapter.

An adapter has the methods of AsyncClient. A new way to reach the queue joins the suite by one more
entry in ADAPTERS.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from tests.contract.typescript_limits import CHECKED_BY_COMPILER, reason_to_skip
from tests.held import RUN_OUT

from penstock import AsyncClient, Client, http

Connect = Callable[..., psycopg.Connection[Any]]


class Awaitables:
    """The sync client with every method awaitable, so that one test fits both."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call


@asynccontextmanager
async def sync_adapter(dsn: str | None, **options: Any) -> AsyncIterator[Any]:
    with Client(dsn, **options) as client:
        yield Awaitables(client)


@asynccontextmanager
async def async_adapter(dsn: str | None, **options: Any) -> AsyncIterator[Any]:
    async with AsyncClient(dsn, **options) as client:
        yield client


@asynccontextmanager
async def http_adapter(url: str, key: str, **options: Any) -> AsyncIterator[Any]:
    with http.Client(url, key, **options) as client:
        yield Awaitables(client)


@asynccontextmanager
async def http_async_adapter(url: str, key: str, **options: Any) -> AsyncIterator[Any]:
    async with http.AsyncClient(url, key, **options) as client:
        yield client


@asynccontextmanager
async def typescript_adapter(url: str, key: str, **options: Any) -> AsyncIterator[Any]:
    # Only here: it needs Node.js and the built client.
    from tests.contract.typescript_client import TypeScriptClient

    client = TypeScriptClient(url, key)
    try:
        yield Awaitables(client)
    finally:
        client.close()


ADAPTERS: dict[str, Callable[..., Any]] = {
    "sync": sync_adapter,
    "async": async_adapter,
    "http": http_adapter,
    "http-async": http_async_adapter,
    "typescript": typescript_adapter,
}
OVER_HTTP = ("http", "http-async", "typescript")


# The sync client over HTTP is generated from the async one: in `make test`, one is enough.
SLOW = ("http",)
# What only SQL decides is the same through any of them: `make pytest-16` takes one. `typescript`
# needs Node.js and a built package: `make test-typescript` takes it.
USUAL = [name for name in ADAPTERS if name != "typescript"]
CHOSEN = os.environ.get("PENSTOCK_TEST_ADAPTERS", " ".join(USUAL)).split()


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CHOSEN]
)
def adapter(request: pytest.FixtureRequest) -> str:
    """Which way to the queue this run of the test takes."""
    name = str(request.param)
    marked = request.node.get_closest_marker("sql_only")
    if name in OVER_HTTP and marked is not None:
        pytest.skip(marked.args[0])
    if name == "typescript" and (reason := reason_to_skip(request.node)):
        pytest.skip(reason)
    return name


@pytest.fixture
async def open_client(
    adapter: str, request: pytest.FixtureRequest
) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Opens clients on any database, and closes them in the end."""
    servers = []
    async with AsyncExitStack() as stack:

        async def make(dsn: str | None, **options: Any) -> Any:
            if adapter not in OVER_HTTP:
                return await stack.enter_async_context(ADAPTERS[adapter](dsn, **options))
            start = request.getfixturevalue("serve")
            # Without upkeep: it would fire schedules under the hands of the tests.
            running = await asyncio.to_thread(lambda: start(dsn, upkeep="off"))
            servers.append(running)
            key = await asyncio.to_thread(running.make_key, "contract", "admin")
            reached = ADAPTERS[adapter](running.url, key, **options)
            return await stack.enter_async_context(reached)

        yield make
    for running in servers:
        await asyncio.to_thread(running.stop)


@pytest.fixture
async def client(open_client: Callable[..., Awaitable[Any]], dsn: str) -> Any:
    """A client on a database of this test's own, with a queue `orders`."""
    client = await open_client(dsn, max_size=4)
    await client.create_queue("orders")
    return client


@pytest.fixture
def disconnected(adapter: str) -> Any:
    """A client of a database that is not there: what it refuses, it refuses before sending."""
    if adapter == "typescript":
        pytest.skip(CHECKED_BY_COMPILER)
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    if adapter == "http":
        return Awaitables(http.Client("http://127.0.0.1:1", "psk_none"))
    if adapter == "http-async":
        return http.AsyncClient("http://127.0.0.1:1", "psk_none")
    return AsyncClient(nowhere) if adapter == "async" else Awaitables(Client(nowhere))


@pytest.fixture
async def own_connection(adapter: str, dsn: str) -> AsyncIterator[Any]:
    """A connection of the caller's, of the kind that fits the adapter, not in autocommit.

    `commit` and `rollback` on it are awaitable whichever kind it is: see `finish`.
    """
    if adapter in OVER_HTTP:
        pytest.skip("over HTTP there is no connection of the caller's")
    if adapter == "async":
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            yield connection
            await connection.rollback()
    else:
        with psycopg.connect(dsn) as connection:
            yield connection
            connection.rollback()


@pytest.fixture
def finish() -> Callable[..., Awaitable[None]]:
    """`await finish(connection, "commit")`, for a connection of either kind."""

    async def act(connection: Any, verb: str) -> None:
        done = getattr(connection, verb)()
        if done is not None:
            await done

    return act


@pytest.fixture
def run_out(connect: Connect) -> Callable[[], None]:
    """Lets every lease expire, without waiting for the clock."""

    def act() -> None:
        connection = connect()
        connection.execute(RUN_OUT)
        connection.execute("select penstock.maintain(true)")

    return act
