"""A real PgBouncer in transaction mode, which forgets prepared statements between transactions."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.chaos.server import Pooler, Server, program_of

from penstock import AsyncClient, Client
from penstock.errors import PoolerModeError

pytestmark = pytest.mark.skipif(
    program_of("pgbouncer") is None,
    reason="PgBouncer is not installed. As root: apt-get install pgbouncer",
)
ROUNDS = 40


@pytest.fixture(scope="module")
def pooled() -> Iterator[str]:
    """The DSN of a database behind the pooler, with a queue `orders`."""
    place = Path(tempfile.mkdtemp(prefix="penstock-pooler-"))
    place.chmod(0o755)
    server = Server(place)
    try:
        pooler = Pooler(server)
        try:
            with Client(server.dsn()) as client:
                client.create_queue("orders")
            yield server.dsn(pooler.port)
        finally:
            pooler.stop()
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)


def check(error: PoolerModeError) -> None:
    assert "prepare_threshold=None" in str(error)
    assert "transaction mode" in str(error)
    assert not error.retryable


def test_the_sync_client_names_the_setting_that_helps(pooled: str) -> None:
    def take_turns() -> None:
        with (
            Client(pooled, prepare_threshold=0) as one,
            Client(pooled, prepare_threshold=0) as other,
        ):
            for n in range(ROUNDS):
                one.enqueue("orders", n)
                other.enqueue("orders", n)

    with pytest.raises(PoolerModeError) as caught:
        take_turns()
    check(caught.value)


async def test_the_async_client_names_the_setting_that_helps(pooled: str) -> None:
    async def work_at_once() -> None:
        async with (
            AsyncClient(pooled, prepare_threshold=0) as one,
            AsyncClient(pooled, prepare_threshold=0) as other,
        ):
            for n in range(ROUNDS):
                await asyncio.gather(one.enqueue("orders", n), other.enqueue("orders", n))

    with pytest.raises(PoolerModeError) as caught:
        await work_at_once()
    check(caught.value)


def test_a_connection_of_the_callers_is_told_the_same(pooled: str) -> None:
    client = Client(pooled, prepare_threshold=None)

    def take_turns() -> None:
        with (
            psycopg.connect(pooled, prepare_threshold=0) as one,
            psycopg.connect(pooled, prepare_threshold=0) as other,
        ):
            for n in range(ROUNDS):
                for connection in (one, other):
                    client.enqueue("orders", n, connection=connection)
                    connection.commit()

    with pytest.raises(PoolerModeError) as caught:
        take_turns()
    check(caught.value)


def test_with_that_setting_everything_works(pooled: str) -> None:
    with Client(pooled, prepare_threshold=None) as client:
        ids = [client.enqueue("orders", n) for n in range(ROUNDS)]
        assert len(set(ids)) == ROUNDS
        assert len(client.claim("orders", ROUNDS)) == ROUNDS
