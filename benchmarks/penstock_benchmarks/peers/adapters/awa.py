"""awa: its Rust core, with handlers in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import awa

from penstock_benchmarks.peers.adapter import QUEUE, Handle, Payload

# Its documentation: try 2 or 4 for a hot queue.
CLAIMERS = 2


@dataclass
class BenchMessage:
    n: int
    at: float
    pad: str


class Adapter:
    kind = "worker"
    package = "awa-pg"
    relations = ("awa.%", "awa_exp.%")
    uvloop = False

    def __init__(self, dsn: str) -> None:
        # It wants a host in the address, even where a socket is named after it.
        self._dsn = dsn.replace("@/", "@localhost/")
        self._client: Any = None
        self._working: Any = None

    async def install(self) -> None:
        client = awa.AsyncClient(self._dsn)
        await client.migrate()
        # Its newer storage at once; a first worker would switch to it by itself.
        await client.install_queue_storage()
        await client.close()

    async def open(self, role: str) -> None:
        self._client = awa.AsyncClient(self._dsn, max_connections=32)

    async def enqueue(self, payload: Payload) -> None:
        await self._client.insert(BenchMessage(**payload), queue=QUEUE)

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        run_at = datetime.now(UTC) + timedelta(seconds=delay_seconds) if delay_seconds else None
        jobs = [BenchMessage(**payload) for payload in payloads]
        await self._client.enqueue_many_copy(jobs, queue=QUEUE, run_at=run_at)

    async def unfinished(self) -> bool:
        # Its queue_stats took seconds of the database's time to say so, with 4,000 done: its last
        # handler has to do, and a moment for the batch of completions that follows.
        await asyncio.sleep(0.05)
        return False

    async def purge(self) -> None:
        # Not drain_queue, which cancels job by job: 20,000 took it more than a minute.
        await self._client.install_queue_storage(reset=True)
        # Its statements were prepared for the tables that went: each insert would fail.
        await self._client.close()
        await self.open("producer")

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        # A client works once: after its shutdown there has to be a new one.
        self._working = client = awa.AsyncClient(self._dsn, max_connections=20)

        @client.task(BenchMessage, queue=QUEUE)
        async def work(job: Any) -> None:
            args = job.args
            await handle({"n": args.n, "at": args.at})

        rescue = {}
        if rescue_seconds is not None:
            rescue = {
                "heartbeat_interval_ms": 1000,
                "heartbeat_staleness_ms": rescue_seconds * 1000,
                "heartbeat_rescue_interval_ms": 1000,
                "leader_election_interval_ms": 1000,
            }
        # No deadline for an attempt: the way that its own benchmarks take, with a fifth of the WAL.
        queue = {"name": QUEUE, "max_workers": concurrency, "deadline_duration_ms": 0}
        await client.start([{**queue, "claimers": CLAIMERS}], **rescue)

    async def stop(self) -> None:
        await self._working.shutdown()
        await self._working.close()

    async def close(self) -> None:
        await self._client.close()

    def settings(self) -> str:
        how = f"COPY for many, no deadline for attempts, {CLAIMERS} claimers"
        return f"{how}, counted to its last handler"
