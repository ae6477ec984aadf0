"""A bare loop of claim and ack, for those who bring no worker."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock_benchmarks.peers.adapter import Handle, Payload

LOOPS = 4
IDLE_SECONDS = 0.005


class Loop(ABC):
    """Four loops, each with a connection: claim a quarter of the concurrency, handle, ack."""

    kind = "loop"

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    @abstractmethod
    async def claim(self, number: int, count: int) -> Sequence[tuple[Any, Payload]]:
        """Up to `count` messages, each with its handle for the ack, on a loop's own connection."""

    @abstractmethod
    async def ack(self, number: int, proofs: list[Any]) -> None: ...

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        self._stopping = False
        batch = max(1, concurrency // LOOPS)
        self._tasks = [asyncio.create_task(self._run(n, batch, handle)) for n in range(LOOPS)]

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _run(self, number: int, batch: int, handle: Handle) -> None:
        while not self._stopping:
            claimed = await self.claim(number, batch)
            if not claimed:
                await asyncio.sleep(IDLE_SECONDS)
                continue
            if len(claimed) == 1:
                await handle(claimed[0][1])
            else:
                await asyncio.gather(*(handle(payload) for _, payload in claimed))
            await self.ack(number, [proof for proof, _ in claimed])
