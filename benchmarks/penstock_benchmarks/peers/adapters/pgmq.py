"""PGMQ: its own SQL, its own client on asyncpg, in a bare loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import psycopg
from pgmq import install_pgmq_from_sql
from pgmq.async_queue import PGMQueue
from pgmq.install import get_embedded_sql_version

from penstock_benchmarks.peers.adapter import QUEUE, Payload
from penstock_benchmarks.peers.loop import LOOPS, Loop

_PRESENT = "select count(*) from pg_available_extensions where name = 'pgmq'"


class Adapter(Loop):
    package = "pgmq"
    relations = ("pgmq.%",)
    uvloop = False

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._pool: Any = None
        self._queue: Any = None

    def version(self) -> str:
        return f"{get_embedded_sql_version()}"

    async def install(self) -> None:
        def install() -> None:
            with psycopg.connect(self._dsn) as connection:
                if connection.execute(_PRESENT).fetchone() == (1,):
                    connection.execute("create extension pgmq")
                else:
                    connection.rollback()
                    install_pgmq_from_sql(conn=connection)
                connection.execute("select pgmq.create(%s)", [QUEUE])

        await asyncio.to_thread(install)

    async def open(self, role: str) -> None:
        self._pool = await asyncpg.create_pool(self._dsn, min_size=1, max_size=32)
        self._queue = PGMQueue(pool=self._pool, init_extension=False)
        await self._queue.init()

    async def enqueue(self, payload: Payload) -> None:
        await self._queue.send(QUEUE, payload)

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        await self._queue.send_batch(QUEUE, list(payloads), delay=delay_seconds or None)

    async def unfinished(self) -> bool:
        query = f"select exists (select from pgmq.q_{QUEUE} where vt <= now() + '1 h')"
        return bool(await self._pool.fetchval(query))

    async def purge(self) -> None:
        await self._queue.purge(QUEUE)

    async def claim(self, number: int, count: int) -> Sequence[tuple[Any, Payload]]:
        messages = await self._queue.read_batch(QUEUE, vt=30, batch_size=count)
        return [(message.msg_id, message.message) for message in messages]

    async def ack(self, number: int, proofs: list[Any]) -> None:
        if len(proofs) == 1:
            await self._queue.delete(QUEUE, proofs[0])
        else:
            await self._queue.delete_batch(QUEUE, proofs)

    async def close(self) -> None:
        await self._pool.close()

    def settings(self) -> str:
        return f"read and delete in batches, {LOOPS} loops"
