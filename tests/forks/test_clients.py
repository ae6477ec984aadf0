"""A client that was used before a fork: each process has its own connections."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.forks.conftest import BACKEND, Child, check_rounds, check_rounds_async, sockets

from penstock import AsyncClient, Client
from penstock.commands.command import Command, scalar
from penstock.db import pools
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import PenstockError
from penstock.http_client import AsyncClient as AsyncHttpClient
from penstock.http_client import Client as HttpClient


def test_children_and_their_parent_each_get_their_own_answers(client: Client) -> None:
    before = client.run(BACKEND)

    def work(who: str) -> tuple[int, str, list[int]]:
        return client.run(BACKEND), client.worker, check_rounds(client, who)

    children = [Child(lambda n=n: work(f"child {n}")) for n in range(3)]
    ours = check_rounds(client, "parent")
    found = [child.result() for child in children]
    backends = [backend for backend, _, _ in found]
    assert len({before, *backends}) == 4
    assert len({client.worker, *(worker for _, worker, _ in found)}) == 4
    ids = [id for _, _, each in found for id in each] + ours
    assert len(set(ids)) == len(ids)


def test_a_child_that_closes_its_client_leaves_the_parents_connections_open(client: Client) -> None:
    before = client.run(BACKEND)
    Child(lambda: client.close()).result()

    def use_and_close() -> None:
        check_rounds(client, "child")
        client.close()

    Child(use_and_close).result()
    assert client.run(BACKEND) == before


def test_a_child_forked_while_all_connections_are_in_use_has_its_own(dsn: str) -> None:
    with Client(dsn, max_size=1, timeout=5) as client:
        client.create_queue("orders")
        borrowed, released = threading.Event(), threading.Event()

        def messages() -> Any:
            yield from range(3)
            borrowed.set()
            released.wait()

        holder = threading.Thread(
            target=lambda: client.enqueue_many("orders", messages(), chunk_size=1)
        )
        holder.start()
        borrowed.wait()
        try:
            assert len(Child(lambda: check_rounds(client, "child")).result()) > 0
        finally:
            released.set()
            holder.join()
        assert client.stats("orders").ready > 3


def test_a_fork_in_the_middle_of_a_stream_leaves_the_parents_transaction_alone(
    client: Client,
) -> None:
    forked: list[Child] = []

    def messages() -> Any:
        yield from range(3)
        forked.append(Child(lambda: check_rounds(client, "child")))
        forked[0].result()
        yield 3

    assert client.enqueue_many("orders", messages(), chunk_size=1).count == 4


def test_a_client_on_the_callers_connection_refuses_to_use_it_in_a_child(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        client = Client(connection=connection)
        client.create_queue("orders")

        def refused() -> str:
            with pytest.raises(PenstockError, match="parent process") as caught:
                client.enqueue("orders", 1)
            return str(caught.value)

        assert "after the fork" in Child(refused).result()
        client.enqueue("orders", 1)


async def test_async_children_and_their_parent_each_get_their_own_answers(dsn: str) -> None:
    async with AsyncClient(dsn, max_size=6) as client:
        await client.create_queue("orders")
        before = await client.run(BACKEND)
        # Claims under way when the process forks are the parent's.
        claims = [asyncio.create_task(client.claim("orders")) for _ in range(8)]
        await asyncio.sleep(0)

        async def work(who: str) -> tuple[int, list[int]]:
            found = await client.run(BACKEND), await check_rounds_async(client, who)
            await client.claim("orders", 2)
            await client.close()
            return found

        children = [Child(lambda n=n: asyncio.run(work(f"child {n}"))) for n in range(2)]
        await asyncio.gather(*claims)
        ours = await check_rounds_async(client, "parent")
        found = [await asyncio.to_thread(child.result) for child in children]
        assert before not in [backend for backend, _ in found]
        ids = [id for _, each in found for id in each] + ours
        assert len(set(ids)) == len(ids)
        alive = "select count(*) from pg_stat_activity where pid = %(pid)s"
        assert await client.run(Command(alive, {"pid": before}, scalar)) == 1


def test_a_client_over_http_opens_another_connection_in_a_child(
    dsn: str, serve: Callable[..., Any]
) -> None:
    running = serve(dsn)
    try:
        with HttpClient(running.url, running.make_key("app", "admin")) as client:
            client.create_queue("orders")
            inherited = sockets()

            def work() -> tuple[bool, str]:
                check_rounds(client, "child")
                is_new = bool(sockets() - inherited)
                client.close()
                return is_new, client.worker

            child = Child(work)
            check_rounds(client, "parent")
            is_new, worker = child.result()
            assert is_new
            assert worker != client.worker
            check_rounds(client, "parent again")
    finally:
        running.stop()


async def test_an_async_client_over_http_opens_another_connection_in_a_child(
    dsn: str, serve: Callable[..., Any]
) -> None:
    running = await asyncio.to_thread(serve, dsn)
    key = await asyncio.to_thread(running.make_key, "app", "admin")
    try:
        async with AsyncHttpClient(running.url, key) as client:
            await client.create_queue("orders")
            inherited = sockets()

            def work() -> bool:
                asyncio.run(check_rounds_async(client, "child"))
                return bool(sockets() - inherited)

            child = Child(work)
            await check_rounds_async(client, "parent")
            assert await asyncio.to_thread(child.result)
            await check_rounds_async(client, "parent again")
    finally:
        await asyncio.to_thread(running.stop)


async def test_a_link_has_another_connection_in_a_child(dsn: str) -> None:
    """The connection of a worker for one kind of work, and the one that listens."""
    link = ReconnectingConnection(dsn)
    before = await link.run(BACKEND)
    child = Child(lambda: asyncio.run(link.run(BACKEND)))
    assert await asyncio.to_thread(child.result) != before
    assert await link.run(BACKEND) == before
    await link.close()


def test_a_pool_is_deleted_after_its_module_was_emptied(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of the interpreter. An exception in the finalizer fails the test."""
    pool: pools.ConnectionPool[psycopg.Connection[Any]] = pools.ConnectionPool(dsn, open=True)
    pool.wait()
    monkeypatch.setattr(pools, "os", None)
    monkeypatch.setattr(pools, "sys", None)
    del pool
    gc.collect()
