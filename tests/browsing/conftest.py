"""Messages in every state there is, in a database of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest

from penstock import Client
from penstock.commands.command import Command

T = TypeVar("T")
Run = Callable[[Command[T]], T]


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as client:
        yield client


@pytest.fixture
def run(client: Client) -> Run[Any]:
    return client.run


@pytest.fixture
def zoo(client: Client, db: psycopg.Connection[Any]) -> None:
    """Two queues with messages in every state, some of them having been through several."""
    for queue in ("alpha", "beta"):
        client.create_queue(queue, max_attempts=3, backoff={"kind": "constant", "base_seconds": 0})
        for n in range(12):
            client.enqueue(queue, {"n": n}, priority=n % 3, key=f"{queue}-{n}")
        client.enqueue(queue, {"large": "x" * 5000})
        for lease in client.claim(queue, 3):
            client.ack(lease)
        for lease in client.claim(queue, 2, worker="clumsy"):
            client.nack(lease, "it broke: 17", delay=0)
        for lease in client.claim(queue, 2, worker="gloomy"):
            client.reject(lease, f"no good: {lease.id}")
        client.claim(queue, 2, worker="busy", lease_seconds=3000)
        client.claim(queue, 1, worker="lost", lease_seconds=1000)
        client.enqueue(queue, {"later": True}, delay=3600, key="later")
        client.enqueue(queue, {"due": True}, delay=1000)
        for group in ("a", "a", "b b"):
            client.enqueue(queue, {"group": group}, group=group)
        client.enqueue(queue, {"group": "later"}, group="c", delay=3600)
        client.cancel(client.enqueue(queue, {"unwanted": True}))
        client.claim(f"{queue}.dlq", 1, worker="digger", lease_seconds=3000)
    # Time passes for one lease and one delay of each queue, without a claim.
    for table in [f"leased_{n}" for n in range(9)]:
        db.execute(
            f"update penstock.{table} set lease_until = now() - interval '1 s' "
            "where worker = 'lost'"
        )
    db.execute(
        "update penstock.scheduled set due_at = now() - interval '1 s' where payload ? 'due'"
    )
