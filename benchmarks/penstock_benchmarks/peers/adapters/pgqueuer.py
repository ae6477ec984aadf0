"""PgQueuer, on an asyncpg pool and uvloop, as its command line runs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

from penstock_benchmarks.peers.adapter import QUEUE, Handle, Payload, supervised


class Adapter:
    kind = "worker"
    package = "pgqueuer"
    relations = ("public.pgqueuer%",)
    uvloop = True

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._pool: Any = None
        self._queries: Any = None
        self._app: PgQueuer
        self._stopping = False
        self._task: asyncio.Task[None]

    async def install(self) -> None:
        async with asyncpg.create_pool(self._dsn, min_size=1, max_size=1) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    async def open(self, role: str) -> None:
        self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=32)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def enqueue(self, payload: Payload) -> None:
        await self._queries.enqueue(QUEUE, json.dumps(payload).encode())

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        count = len(payloads)
        await self._queries.enqueue(
            [QUEUE] * count,
            [json.dumps(payload).encode() for payload in payloads],
            [0] * count,
            execute_after=[timedelta(seconds=delay_seconds)] * count,
        )

    async def unfinished(self) -> bool:
        query = "select exists (select from pgqueuer where execute_after <= now())"
        return bool(await self._pool.fetchval(query))

    async def purge(self) -> None:
        await self._queries.clear_queue()
        await self._queries.clear_queue_log()

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        # Its cap on what is in work is at least two batches.
        batch = max(1, concurrency // 2)
        heartbeat = timedelta(seconds=rescue_seconds or 30)
        self._stopping = False

        async def run() -> None:
            async with asyncpg.create_pool(self._dsn, min_size=2, max_size=10) as pool:
                self._app = app = PgQueuer.from_asyncpg_pool(pool)

                @app.entrypoint(QUEUE)
                async def work(job: Job) -> None:
                    await handle(json.loads(job.payload or b"{}"))

                await app.run(
                    batch_size=batch,
                    max_concurrent_tasks=2 * batch,
                    heartbeat_timeout=heartbeat,
                    shutdown_on_listener_failure=True,
                )
            # It shuts itself down when its connections fail.
            if not self._stopping:
                raise ConnectionError("it ended by itself")

        self._task = asyncio.create_task(supervised(run))

    async def stop(self) -> None:
        self._stopping = True
        self._app.shutdown.set()
        await self._task

    async def close(self) -> None:
        await self._pool.close()

    def settings(self) -> str:
        return "batch_size half the concurrency, asyncpg pool, uvloop, many rows in one enqueue"
