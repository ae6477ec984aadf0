"""The customers of the demo: they order, ask for exports, and read newsletters.

About two messages a second over all queues.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from itertools import count
from time import time
from typing import Any, Final

from penstock import AsyncClient, PenstockError
from penstock.demo.queues import CYCLE, EMAILS, EXPORTS, NEWSLETTERS, ORDERS, PAYMENTS

logger = logging.getLogger("penstock.demo")

CUSTOMERS: Final = ("ada", "barbara", "edsger", "grace", "leslie", "tony")
# Enough for every outcome of the handlers. They come at once, so that the first look shows some.
FIRST_ORDERS: Final = 40
_WAVE_SECONDS: Final = 600
_MOST_DEAD_LETTERS: Final = 60


async def produce(client: AsyncClient) -> None:
    """Enqueue until cancelled. An order that cannot be enqueued is lost, as a real one would be."""
    start = int(time()) % 10_000_000 // CYCLE * CYCLE
    for number in count(start):
        if number - start >= FIRST_ORDERS:
            await asyncio.sleep(_pause(time()))
        await _try(place_order, client, number)
        if number % 5 == 0:
            await _try(request_export, client, number)
        if number % 20 == 0:
            await _try(write_newsletter, client, number)
        if number % CYCLE == 0:
            await _try(forget_dead_letters, client, number)


def _pause(now: float) -> float:
    """One to four seconds, because a shop has busy and quiet times."""
    wave = math.sin(2 * math.pi * now / _WAVE_SECONDS)
    return (2.2 - 1.2 * wave) * random.uniform(0.7, 1.3)


async def _try(
    act: Callable[[AsyncClient, int], Awaitable[None]], client: AsyncClient, number: int
) -> None:
    """The database may restart, and the user may drop a queue of the demo."""
    try:
        await act(client, number)
    except PenstockError as error:
        logger.error("%s failed: %s", act.__name__, error)
        await asyncio.sleep(1)


async def place_order(client: AsyncClient, number: int) -> None:
    order = _order(number)
    is_urgent = number % 15 == 0
    await client.enqueue(
        ORDERS, order, priority=5 if is_urgent else 0, headers={"source": "demo shop"}
    )
    if number % 4 == 0:
        review = {"template": "review", **order}
        await client.enqueue(EMAILS, review, delay=random.randint(60, 600))


def _order(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "customer": random.choice(CUSTOMERS),
        "amount": 0 if number % CYCLE == 20 else round(random.uniform(5, 250), 2),
        "articles": random.randint(1, 6),
    }


async def request_export(client: AsyncClient, number: int) -> None:
    await client.enqueue(EXPORTS, {"export": "orders", "up_to": number, "format": "csv"})


async def write_newsletter(client: AsyncClient, number: int) -> None:
    await client.enqueue(NEWSLETTERS, {"newsletter": number, "to": random.choice(CUSTOMERS)})


async def forget_dead_letters(client: AsyncClient, number: int) -> None:
    """Limit the number of dead letters in a demo that runs for days."""
    for queue in (PAYMENTS, EMAILS):
        surplus = (await client.stats(queue)).dead - _MOST_DEAD_LETTERS
        if surplus > 0:
            await client.purge(f"{queue}.dlq", max_count=surplus)
