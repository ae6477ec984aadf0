"""A worker that forks, or was made before a fork."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from tests.forks.conftest import Child, check_rounds_async
from tests.worker.conftest import until

from penstock import AsyncClient
from penstock.worker import App, Worker


async def test_a_handler_may_fork_and_the_child_may_use_the_workers_client(dsn: str) -> None:
    app, children = App(), []

    @app.handler("orders")
    async def handle(message: Any) -> None:
        if message.payload == "fork":
            work = check_rounds_async(message.client, "child")
            children.append(Child(lambda: asyncio.run(work)))
            work.close()

    async with AsyncClient(dsn) as client:
        await client.create_queue("orders")
        async with Worker(app, dsn) as worker:
            first = await client.enqueue("orders", "fork")
            await until(lambda: bool(children), "a fork")
            ids = await asyncio.to_thread(children[0].result)
            last = await client.enqueue("orders", "after")
            await until(lambda: worker.settled == len(ids) + 2, "all are settled")
        for id in (first, *ids, last):
            message = await client.message(id)
            assert (message.state, message.attempt) == ("done", 1)


async def test_a_worker_made_before_the_fork_works_in_each_child_under_its_own_name(
    dsn: str,
) -> None:
    app = App()

    @app.handler("orders")
    async def handle(message: Any) -> str:
        return "done"

    worker = Worker(app, dsn)

    async def work_until_settled() -> str:
        async with worker:
            await until(lambda: worker.settled > 0, "one is settled")
        return worker.name

    async with AsyncClient(dsn) as client:
        await client.create_queue("orders")
        children = [Child(lambda: asyncio.run(work_until_settled())) for _ in range(2)]
        results = asyncio.gather(*(asyncio.to_thread(child.result) for child in children))
        while not results.done():
            await client.enqueue("orders", 1)
            await asyncio.sleep(0.02)
        names = await results
    assert len({worker.name, *names}) == 3


async def test_a_signal_to_a_child_does_not_stop_the_parents_worker(dsn: str) -> None:
    app = App()
    app.handler("orders")(_nothing)
    worker = Worker(app, dsn)
    async with AsyncClient(dsn) as client:
        await client.create_queue("orders")
        running = asyncio.create_task(worker.run())
        await client.enqueue("orders", 1)
        await until(lambda: hasattr(worker, "_settler") and worker.settled == 1, "it runs")
        heard, say = os.pipe()

        def say_so_and_wait() -> None:
            os.write(say, b".")
            signal.pause()

        child = Child(say_so_and_wait)
        await asyncio.to_thread(os.read, heard, 1)
        os.kill(child.pid, signal.SIGTERM)
        _, status = await asyncio.to_thread(os.waitpid, child.pid, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM
        await client.enqueue("orders", 2)
        await until(lambda: worker.settled == 2 or running.done(), "it continues")
        assert not running.done()
        worker.stop()
        await running


async def _nothing(message: Any) -> None:
    pass
