"""What the tests of tasks share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from penstock import App, AsyncClient

from .batches_in_sql import Connect, Db

LIMIT = 90.0  # how long anything is waited for: a test that gets there has failed


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(dsn, max_size=4) as client:
        await client.create_queue("work")
        yield client


@pytest.fixture
async def app(dsn: str, client: AsyncClient) -> AsyncIterator[App]:
    """An application that enqueues in the test's database, which has the queue "work"."""
    app = App(dsn)
    yield app
    await app.close()


@pytest.fixture
def db(connect: Connect) -> Db:
    """A database with queue work for members and queue after for the messages that follow."""
    db = connect()
    db.execute("select penstock.create_queue('work', exist_ok => true)")
    db.execute("select penstock.create_queue('after', exist_ok => true)")
    return db


async def until(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """Waits until the condition holds, and returns what it returned; it may be async."""
    deadline = time.monotonic() + limit
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        await asyncio.sleep(0.005)
