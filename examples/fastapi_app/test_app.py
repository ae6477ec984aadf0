"""A real PostgreSQL, and the worker's own code: pytest test_app.py"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import app as shop
import httpx

from penstock import AsyncClient
from penstock.testing import drain_async

ORDER = {"email": "ada@example.com", "item": "lamp"}


@asynccontextmanager
async def running() -> AsyncIterator[tuple[httpx.AsyncClient, AsyncClient]]:
    """The API with its lifespan, and a client of the queues."""
    transport = httpx.ASGITransport(app=shop.api)
    async with (
        shop.lifespan(shop.api),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as web,
        AsyncClient(shop.DATABASE_URL) as client,
    ):
        yield web, client


def test_the_shop() -> None:
    """The pool of the application is opened once, so its tests share one event loop."""

    async def main() -> None:
        checks: list[Callable[[httpx.AsyncClient, AsyncClient], Awaitable[None]]] = [
            an_order_that_is_refused_enqueues_nothing,
            an_order_and_its_receipt_are_committed_together,
            a_price_can_be_awaited,
        ]
        async with running() as (web, client):
            for check in checks:
                await check(web, client)

    asyncio.run(main())


async def an_order_that_is_refused_enqueues_nothing(
    web: httpx.AsyncClient, client: AsyncClient
) -> None:
    answer = await web.post("/orders", json={"email": "ada@example.com"})
    assert answer.status_code == 422
    assert (await client.stats("emails")).ready == 0


async def an_order_and_its_receipt_are_committed_together(
    web: httpx.AsyncClient, client: AsyncClient
) -> None:
    answer = await web.post("/orders", json=ORDER)
    assert answer.status_code == 201
    [handled] = await drain_async(shop.queue, client, "emails")
    assert handled.lease.payload == {"order_id": answer.json()["id"]}


async def a_price_can_be_awaited(web: httpx.AsyncClient, client: AsyncClient) -> None:
    id = (await web.post("/prices", json=ORDER)).json()["id"]
    assert (await web.get(f"/prices/{id}")).status_code == 202
    await drain_async(shop.queue, client, "orders")
    price = await web.get(f"/prices/{id}?wait=10")
    assert price.json() == {"item": "lamp", "cents": 400}
