"""The handlers of the demo.

The number of an order decides what happens to it, so that every outcome comes up in the first
minute. Each handler waits for about as long as a real one would.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

from penstock import App, Reject, RetryPolicy, Snooze
from penstock.demo.queues import (
    CYCLE,
    EMAILS,
    EXPORTS,
    NEWSLETTERS,
    ORDERS,
    PAYMENTS,
    REPORTS,
    SHIPMENTS,
)
from penstock.worker import Delivery

app = App()


class CardDeclined(Exception):  # noqa: N818 - the name that a bank would give it
    """Another attempt would not help."""


async def work(shortest: float, longest: float) -> None:
    """Take as long as the real thing."""
    await asyncio.sleep(random.uniform(shortest, longest))


@app.handler(ORDERS, concurrency=4)
async def accept_order(message: Delivery) -> None:
    order = message.payload
    await work(0.05, 0.3)
    if order["number"] % 12 == 7 and message.attempt == 1:
        raise ConnectionError("the warehouse at stock.example:443 closed the connection")
    # With keys, another attempt at this order replaces what the first one enqueued.
    client, key = message.client, f"order-{order['number']}"
    await client.enqueue(PAYMENTS, order, key=key, priority=message.priority)
    await client.enqueue(SHIPMENTS, order, key=key, group=order["customer"])
    await client.enqueue(EMAILS, {"template": "confirmation", **order}, key=key)


@app.handler(PAYMENTS, concurrency=4, timeout=10, retry=RetryPolicy(reject=(CardDeclined,)))
async def charge_card(message: Delivery) -> None:
    order = message.payload
    if order["amount"] <= 0:
        raise Reject(f"the amount of order {order['number']} is {order['amount']}")
    await work(0.1, 0.6)
    match order["number"] % CYCLE:
        case 5 | 25:
            raise CardDeclined(f"the card of order {order['number']} has expired")
        case 10 | 15 | 75 if _age(message) < timedelta(minutes=1):
            # The bank recovers: a dead letter that is redriven later succeeds.
            raise TimeoutError("bank.example did not answer within 5 seconds")
        case 30 | 90 if message.attempt == 1:
            raise ConnectionError("bank.example closed the connection")


@app.handler(SHIPMENTS, concurrency=3)
async def ship_parcel(message: Delivery) -> None:
    """A group is a customer, whose parcels leave in the order of the purchases."""
    if message.payload["number"] % 8 == 3 and _age(message) < timedelta(seconds=10):
        raise Snooze(10)  # the parcel is not packed
    await work(0.3, 1.2)


@app.handler(EMAILS, concurrency=10)
async def send_email(message: Delivery) -> None:
    await work(0.02, 0.1)
    if message.payload["number"] % CYCLE == 21:
        address = f"{message.payload['customer']}@example.com"
        raise ValueError(f"mail.example refused {address!r}: mailbox is full")


@app.handler(EXPORTS, concurrency=2)
async def write_export(message: Delivery) -> None:
    """A long one. Its lease is extended while it runs."""
    await work(6, 15)


@app.handler(REPORTS)
async def write_report(message: Delivery) -> None:
    await work(0.5, 2)


@app.handler(NEWSLETTERS)
async def send_newsletter(message: Delivery) -> None:
    """The queue is paused. Resume it in the UI to see this handler run."""
    await work(0.5, 1.5)


def _age(message: Delivery) -> timedelta:
    return datetime.now(UTC) - message.enqueued_at
