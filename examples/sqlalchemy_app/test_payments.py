"""A real PostgreSQL, and the worker's own code: pytest test_payments.py"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal

import payments
import pytest
from sqlalchemy.orm import Session

from penstock import Client
from penstock.testing import drain


@pytest.fixture
def client() -> Iterator[Client]:
    payments.Base.metadata.create_all(payments.engine)
    with Client(payments.QUEUE_URL) as client:
        for name in ("payments", "shipping"):
            client.create_queue(name, exist_ok=True)
        yield client
    payments.Base.metadata.drop_all(payments.engine)
    payments.engine.dispose()
    payments.queue.close_sync()


def order(id: int) -> payments.Order:
    with Session(payments.engine) as session:
        return session.get_one(payments.Order, id)


def test_an_order_is_charged_and_shipped(client: Client) -> None:
    id = payments.place_order("ada@example.com", Decimal("12.50"))
    assert payments.unpaid_orders() == ["ada@example.com"]
    assert len(drain(payments.queue, client)) == 2
    assert order(id).paid_at is not None
    assert order(id).shipped_at is not None
    asyncio.run(payments.async_engine.dispose())


def test_an_order_that_fails_enqueues_nothing(client: Client) -> None:
    with pytest.raises(ArithmeticError):
        payments.place_order("ada@example.com", Decimal("1") / Decimal("0"))
    assert client.stats("payments").ready == 0


def test_an_async_session_enqueues_too(client: Client) -> None:
    async def place() -> int:
        try:
            return await payments.place_order_async("ada@example.com", Decimal(1))
        finally:
            await payments.async_engine.dispose()
            await payments.queue.close()

    id = asyncio.run(place())
    [lease] = client.claim("payments")
    assert lease.payload == {"order_id": id, "total": "1"}
