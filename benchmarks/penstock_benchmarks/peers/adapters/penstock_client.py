"""A bare loop on Penstock's client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock_benchmarks.peers.adapter import Payload
from penstock_benchmarks.peers.adapters import penstock
from penstock_benchmarks.peers.loop import Loop


class Adapter(Loop, penstock.Adapter):
    kind = "loop"
    # The rest is said by the worker, on the same tables.
    parts = ("clean", "held", "scheduled")
    queue = "bench-loop"

    def __init__(self, dsn: str) -> None:
        Loop.__init__(self)
        penstock.Adapter.__init__(self, dsn)

    async def claim(self, number: int, count: int) -> Sequence[tuple[Any, Payload]]:
        return [(lease, lease.payload) for lease in await self._client.claim(self.queue, count)]

    async def ack(self, number: int, proofs: list[Any]) -> None:
        if len(proofs) == 1:
            await self._client.ack(proofs[0])
        else:
            await self._client.ack_many(proofs)
