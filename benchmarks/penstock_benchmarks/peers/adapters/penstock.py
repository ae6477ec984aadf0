"""Penstock's worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg

from penstock import AsyncClient, NewMessage
from penstock.db.migrations import Migrator
from penstock.worker import App, Worker
from penstock_benchmarks.peers.adapter import Handle, Payload


class Adapter:
    kind = "worker"
    package = "penstock"
    relations = ("penstock.%",)
    uvloop = False
    queue = "bench"

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._client = AsyncClient(dsn, max_size=32)
        self._worker: Worker | None = None

    async def install(self) -> None:
        def migrate() -> None:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                Migrator(connection).up()

        await asyncio.to_thread(migrate)
        async with AsyncClient(self._dsn) as client:
            await client.create_queue(self.queue, keep_history=0, exist_ok=True)

    async def open(self, role: str) -> None:
        await self._client.open()

    async def enqueue(self, payload: Payload) -> None:
        await self._client.enqueue(self.queue, payload)

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        messages: Sequence[Any] = payloads
        if delay_seconds:
            messages = [NewMessage(payload, delay=delay_seconds) for payload in payloads]
        await self._client.enqueue_many(self.queue, messages)

    async def unfinished(self) -> bool:
        stats = await self._client.stats(self.queue)
        return bool(stats.ready + stats.leased)

    async def purge(self) -> None:
        await self._client.purge(self.queue, include_leased=True)

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        app = App()

        @app.handler(self.queue, concurrency=concurrency, lease_seconds=rescue_seconds)
        async def work(delivery: Any) -> None:
            await handle(delivery.payload)

        self._worker = Worker(app, self._dsn)
        await self._worker.start()

    async def stop(self) -> None:
        assert self._worker is not None
        await self._worker.drain()

    async def close(self) -> None:
        await self._client.close()

    def settings(self) -> str:
        return "keep_history 0"
