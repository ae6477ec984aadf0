"""The queue that most teams write first: a table, SKIP LOCKED, asyncpg."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from penstock_benchmarks.peers.adapter import QUEUE, Payload
from penstock_benchmarks.peers.loop import LOOPS, Loop
from penstock_benchmarks.statements import plain_table, statement

_SCHEMA = "penstock_bench"
_SCHEDULE = """
insert into penstock_bench.message (queue_name, payload, max_attempts, visible_at)
select $1, unnest($2::jsonb[]), 5, clock_timestamp() + $3::interval
"""
_UNFINISHED = "select exists (select from penstock_bench.message where visible_at <= now() + '1 h')"


class Adapter(Loop):
    package = "asyncpg"
    schema = _SCHEMA
    relations = (f"{schema}.%",)
    uvloop = False

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._pool: Any = None

    def definition(self) -> str:
        return plain_table("visible_at")

    def _text(self, statement: str) -> str:
        return statement.replace(_SCHEMA, self.schema)

    async def install(self) -> None:
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(self._text(self.definition()))
        await connection.execute(f"insert into {self.schema}.queue (name) values ($1)", QUEUE)
        await connection.close()

    async def open(self, role: str) -> None:
        async def prepare(connection: asyncpg.Connection) -> None:
            await connection.execute(statement("plain.session"))

        # No reset: it would undo the session's settings, and costs a round trip each time.
        self._pool = await asyncpg.create_pool(
            self._dsn, min_size=1, max_size=32, init=prepare, reset=_keep
        )

    async def enqueue(self, payload: Payload) -> None:
        await self._pool.fetchval(
            self._text(statement("plain.enqueue")), QUEUE, json.dumps(payload)
        )

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        texts = [json.dumps(payload) for payload in payloads]
        if delay_seconds:
            await self._pool.execute(
                self._text(_SCHEDULE), QUEUE, texts, timedelta(seconds=delay_seconds)
            )
        else:
            await self._pool.fetch(self._text(statement("plain.enqueue_many")), QUEUE, texts)

    async def unfinished(self) -> bool:
        return bool(await self._pool.fetchval(self._text(_UNFINISHED)))

    async def purge(self) -> None:
        await self._pool.execute(f"truncate {self.schema}.message")

    async def claim(self, number: int, count: int) -> Sequence[tuple[Any, Payload]]:
        query = self._text(statement("plain.claim"))
        rows = await self._pool.fetch(query, QUEUE, count, f"loop-{number}")
        return [(row["id"], json.loads(row["payload"])) for row in rows]

    async def ack(self, number: int, proofs: list[Any]) -> None:
        await self._pool.fetchval(self._text(statement("plain.ack_many")), proofs, f"loop-{number}")

    async def close(self) -> None:
        await self._pool.close()

    def settings(self) -> str:
        return f"plans pinned by the session, {LOOPS} loops"


async def _keep(connection: asyncpg.Connection) -> None:
    pass
