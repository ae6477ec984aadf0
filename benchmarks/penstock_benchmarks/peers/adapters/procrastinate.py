"""procrastinate, on its psycopg connector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import procrastinate

from penstock_benchmarks.peers.adapter import QUEUE, Handle, Payload, supervised

_UNFINISHED = """
select exists (
    select from procrastinate_jobs
     where status in ('todo', 'doing') and (scheduled_at is null or scheduled_at <= now()))
"""


class Adapter:
    kind = "worker"
    package = "procrastinate"
    relations = ("public.procrastinate%",)
    uvloop = False

    def __init__(self, dsn: str) -> None:
        self._app = self._make(dsn, 32)
        self._dsn = dsn
        self._work: asyncio.Task[None]

    def _make(self, dsn: str, connections: int) -> procrastinate.App:
        connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=connections)
        return procrastinate.App(connector=connector)

    async def install(self) -> None:
        async with self._make(self._dsn, 2).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def open(self, role: str) -> None:
        await self._app.open_async()
        self._task = self._app.configure_task("bench", queue=QUEUE)

    async def enqueue(self, payload: Payload) -> None:
        await self._task.defer_async(**payload)

    async def enqueue_many(self, payloads: Sequence[Payload], delay_seconds: int) -> None:
        task = self._task
        if delay_seconds:
            later = {"seconds": delay_seconds}
            task = self._app.configure_task("bench", queue=QUEUE, schedule_in=later)
        await task.batch_defer_async(*payloads)

    async def unfinished(self) -> bool:
        row = await self._app.connector.execute_query_one_async(_UNFINISHED)
        return bool(row["exists"])

    async def purge(self) -> None:
        await self._app.connector.execute_query_async("truncate procrastinate_jobs cascade")

    async def start(self, concurrency: int, handle: Handle, rescue_seconds: int | None) -> None:
        heart = {}
        if rescue_seconds is not None:
            heart = {"update_heartbeat_interval": 1.0, "stalled_worker_timeout": rescue_seconds}

        async def run() -> None:
            async with self._make(self._dsn, min(concurrency + 2, 20)).open_async() as app:

                @app.task(name="bench", queue=QUEUE)
                async def work(n: int, at: float, pad: str) -> None:
                    await handle({"n": n, "at": at})

                async with asyncio.TaskGroup() as tasks:
                    if rescue_seconds is not None:
                        tasks.create_task(self._rescue(app, rescue_seconds))
                    await app.run_worker_async(
                        concurrency=concurrency,
                        delete_jobs="successful",
                        install_signal_handlers=False,
                        **heart,
                    )

        self._work = asyncio.create_task(supervised(run))

    async def _rescue(self, app: procrastinate.App, seconds: int) -> None:
        """What its documentation tells users to run now and then: stalled jobs, retried."""
        while True:
            await asyncio.sleep(1)
            stalled = await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=seconds)
            for job in stalled:
                await app.job_manager.retry_job(job)

    async def stop(self) -> None:
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)

    async def close(self) -> None:
        await self._app.close_async()

    def settings(self) -> str:
        return "delete_jobs successful, LISTEN on, batch_defer for many, pool of 20"
