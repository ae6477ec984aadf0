"""The queue that most teams write first: a table, SKIP LOCKED, asyncpg."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from peers.adapter import QUEUE, Payload
from peers.loop import LOOPS, Loop
from penstock.bench.statements import resource, statement

_SCHEDULE = """
insert into penstock_bench.message (queue_name, payload, max_attempts, visible_at)
select $1, unnest($2::jsonb[]), 5, clock_timestamp() + $3::interval
"""
_UNFINISHED = "select exists (select from penstock_bench.message where visible_at <= now() + '1 h')"


class Adapter(Loop):
    package = "asyncpg"
    relations = ("penstock_bench.%",)
    uvloop = False

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._pool: Any = None

    async def install(self) -> None:
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(resource("plain_table.sql"))
        await connection.execute("insert into penstock_bench.queue (name) values ($1)", QUEUE)
        await connection.close()

    async def open(self, role: str) -> None:
        async def prepare(connection: asyncpg.Connection) -> None:
            await connection.execute(statement("plain.session"))

        # No reset: it would undo the session's settings, and costs a round trip each time.
        self._pool = await asyncpg.create_pool(
            self._dsn, min_size=1, max_size=32, init=prepare, reset=_keep
        )

    async def enqueue(self, payload: Payload) -> None:
        await self._pool.fetchval(statement("plain.enqueue"), QUEUE, json.dumps(payload))

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        texts = [json.dumps(payload) for payload in payloads]
        if delay_seconds:
            await self._pool.execute(_SCHEDULE, QUEUE, texts, timedelta(seconds=delay_seconds))
        else:
            await self._pool.fetch(statement("plain.enqueue_many"), QUEUE, texts)

    async def unfinished(self) -> bool:
        return bool(await self._pool.fetchval(_UNFINISHED))

    async def purge(self) -> None:
        await self._pool.execute("truncate penstock_bench.message")

    async def claim(self, number: int, count: int) -> Sequence[tuple[Any, Payload]]:
        rows = await self._pool.fetch(statement("plain.claim"), QUEUE, count, f"loop-{number}")
        return [(row["id"], json.loads(row["payload"])) for row in rows]

    async def ack(self, number: int, proofs: list[Any]) -> None:
        await self._pool.fetchval(statement("plain.ack_many"), proofs, f"loop-{number}")

    async def close(self) -> None:
        await self._pool.close()

    def settings(self) -> str:
        return f"plans pinned by the session; {LOOPS} loops"


async def _keep(connection: asyncpg.Connection) -> None:
    pass
