"""awa: its Rust core, with handlers in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import awa

from peers.adapter import QUEUE, Handle, Payload


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
        await self._client.flush_admin_metadata()
        found = [stat for stat in await self._client.queue_stats() if stat.queue == QUEUE]
        return any(stat.available + stat.running + stat.retryable for stat in found)

    async def purge(self) -> None:
        # Not drain_queue, which cancels job by job: 20,000 took it more than a minute.
        await self._client.install_queue_storage(reset=True)

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
        await client.start([(QUEUE, concurrency)], **rescue)

    async def stop(self) -> None:
        await self._working.shutdown()
        await self._working.close()

    async def close(self) -> None:
        await self._client.close()

    def settings(self) -> str:
        return "COPY for many; defaults"
