"""Wakes streams up when a message was settled in this process."""

from __future__ import annotations

import asyncio
from typing import Any


class SettleSignal:
    """A condition without a lock: all waiters of one process are in one event loop."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Returns after the next settle, after some seconds, or when `gone` is done."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        ends: set[asyncio.Future[Any]] = {waiter, gone}
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(waiter)
