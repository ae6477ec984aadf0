"""Keys under concurrency: at most one waiting message of a queue has a given key."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.held import RUN_OUT

LEASES = pytest.mark.parametrize("count", [1, 2], ids=["moved", "in place"])


@pytest.fixture(autouse=True)
def queue(engine: Any) -> None:
    engine.create("work", "{}")


def waiting(engine: Any) -> list[int]:
    query = "select id from penstock.messages where state = 'ready' order by id"
    return [id for (id,) in engine.connection.execute(query)]


def test_a_producer_waits_for_another_transaction_with_its_key(engine: Any, other: Any) -> None:
    first = other.enqueue("work", key="k")
    engine.connection.execute("set lock_timeout = '50ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        engine.enqueue("work", "2", key="k")
    assert engine.enqueue("work", "2", key="another") != first
    other.connection.commit()
    assert engine.enqueue("work", "2", key="k") == first
    assert len(waiting(engine)) == 2


def test_a_producer_takes_a_key_whose_transaction_was_rolled_back(engine: Any, other: Any) -> None:
    other.enqueue("work", key="k")
    other.connection.rollback()
    assert waiting(engine) == []
    id = engine.enqueue("work", key="k")
    assert waiting(engine) == [id]


@LEASES
def test_a_message_that_comes_back_yields_to_a_newer_one(engine: Any, count: int) -> None:
    older = engine.enqueue("work", key="k")
    [(id, token)] = engine.claim("work", count)
    newer = engine.enqueue("work", "2", key="k")
    assert (id, newer > older) == (older, True)
    assert engine.value("select penstock.nack(%s, %s, 'again', '0')", id, token) == "superseded"
    assert waiting(engine) == [newer]


@LEASES
def test_a_claim_leaves_an_expired_lease_whose_key_is_locked(
    engine: Any, other: Any, count: int
) -> None:
    """The enqueuer may commit a newer message with this key, or roll back."""
    older = engine.enqueue("work", key="k")
    assert engine.claim("work", count)
    other.enqueue("work", "2", key="k")
    engine.connection.execute(RUN_OUT)
    engine.connection.execute("set lock_timeout = '50ms'")
    assert engine.claim("work", count) == []
    other.connection.rollback()
    engine.value("select penstock.maintain()")
    assert [id for id, _ in engine.claim("work", count)] == [older]
