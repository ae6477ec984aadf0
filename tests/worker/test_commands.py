"""Commands to a worker: it gets them through PostgreSQL, with wake-ups and without."""

from __future__ import annotations

import asyncio

import pytest
from tests.worker.conftest import until

from penstock import AsyncClient
from penstock.commands import read
from penstock.model.monitoring import Heartbeat
from penstock.worker import App, Delivery, Worker, heartbeat
from penstock.worker.counters import HandlerCounters
from penstock.worker.recent_work import RecentWork, percentile


async def reported(client: AsyncClient, worker: Worker) -> Heartbeat | None:
    found = await client.run(read.heartbeats())
    return next((beat for beat in found if beat.worker == worker.name), None)


async def test_a_quiet_worker_claims_nothing_and_finishes_what_it_runs(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app, ran, go = App(), [], asyncio.Event()

    @app.handler("work")
    async def handle(delivery: Delivery) -> None:
        await go.wait()
        ran.append(delivery.payload)

    async with Worker(app, dsn, concurrency=2) as worker:
        await client.enqueue("work", 1)
        await until(lambda: worker.runners[0].running, "the first message runs")
        await until(lambda: reported(client, worker), "the worker reports")
        await client.command_worker(worker.name, "quiet")
        await until(lambda: worker.runners[0].quiet, "the command arrives")
        await client.enqueue("work", 2)
        go.set()
        await until(lambda: ran == [1], "the run ends")
        await worker._poller.run_once()
        beat = await until(lambda: is_in_state(client, worker, "quiet"), "it reports that")
        assert beat.queues["work"].running <= 1
        assert ran == [1]
        await until(lambda: is_ready(client), "a message that it had just claimed is given back")
        assert ran == [1]
        await client.command_worker(worker.name, "resume")
        await until(lambda: ran == [1, 2], "it claims again")


async def is_ready(client: AsyncClient) -> bool:
    return (await client.stats("work")).ready == 1


async def is_in_state(client: AsyncClient, worker: Worker, state: str) -> Heartbeat | None:
    beat = await reported(client, worker)
    return beat if beat is not None and beat.state == state else None


async def test_a_worker_that_is_stopped_drains_and_its_run_ends(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app, begun, go = App(), asyncio.Event(), asyncio.Event()

    @app.handler("work")
    async def handle(delivery: Delivery) -> None:
        begun.set()
        await go.wait()

    worker = Worker(app, dsn)
    running = asyncio.create_task(worker.run(signals=False))
    await client.enqueue("work", 1)
    await begun.wait()
    await until(lambda: reported(client, worker), "the worker reports")
    await client.command_worker(worker.name, "stop")
    await until(lambda: is_in_state(client, worker, "draining"), "it drains")
    go.set()
    await running
    assert await reported(client, worker) is None
    stats = await client.stats("work")
    assert (stats.ready, stats.leased) == (0, 0)


async def test_without_wake_ups_a_command_comes_with_the_next_report(
    dsn: str, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.05)
    await client.create_queue("work")
    app = App()

    @app.handler("work")
    async def handle(delivery: Delivery) -> None: ...

    async with Worker(app, dsn, wake_ups=False) as worker:
        await until(lambda: reported(client, worker), "the worker reports")
        await client.command_worker(worker.name, "quiet")
        await until(lambda: worker.runners[0].quiet, "the command arrives")


async def test_a_report_tells_what_runs_now_and_for_how_long(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work")
    app, go = App(), asyncio.Event()

    @app.handler("work")
    async def handle(delivery: Delivery) -> None:
        await go.wait()

    async with Worker(app, dsn) as worker:
        ids = [await client.enqueue("work", n) for n in range(3)]
        await until(lambda: len(worker.runners[0].running) == 3, "three messages run")
        await worker._heartbeat.run_once()
        beat = await reported(client, worker)
        assert beat is not None
        runs = beat.queues["work"].runs
        assert {run.id for run in runs} == {str(id) for id in ids}
        assert [run.seconds for run in runs] == sorted((r.seconds for r in runs), reverse=True)
        go.set()


def test_rates_and_percentiles_are_of_the_last_five_minutes() -> None:
    counters = HandlerCounters()
    work = RecentWork(counters, now=0)
    assert work.measure(now=10) == {}
    counters.done, counters.retried = 110, 10
    for _ in range(120):
        counters.run.add(0.2)
    measured = work.measure(now=60)
    assert (measured["done_per_minute"], measured["failed_per_minute"]) == (110.0, 10.0)
    assert 0.1 < measured["p50_seconds"] < measured["p95_seconds"] <= 0.25
    assert work.measure(now=359)  # what was counted at 60 is within the window
    assert work.measure(now=800) == {}


@pytest.mark.parametrize(
    ("seconds", "share", "low", "high"),
    [
        ([0.0005] * 10, 0.5, 0.0, 0.001),
        ([0.2] * 95 + [4.0] * 5, 0.5, 0.1, 0.25),
        ([0.2] * 90 + [4.0] * 10, 0.95, 2.5, 5.0),
        ([9999.0], 0.95, 3600.0, 3600.0),
        ([0.2], 1.0, 0.1, 0.25),
    ],
)
def test_percentiles_lie_in_the_bucket_of_their_values(
    seconds: list[float], share: float, low: float, high: float
) -> None:
    counters = HandlerCounters()
    for each in seconds:
        counters.run.add(each)
    assert low <= percentile(counters.run.counts, share) <= high
