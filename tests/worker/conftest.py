"""What the worker's tests share: a client of the test's own, and waiting for what must come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from penstock import AsyncClient

LIMIT = 90.0  # how long anything is waited for: a test that gets there has failed


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(dsn, max_size=4) as client:
        yield client


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
