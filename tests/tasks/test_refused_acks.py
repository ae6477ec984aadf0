"""What a task enqueues with its ack may be refused. Only that message fails then."""

from __future__ import annotations

import pytest

from penstock import App, AsyncClient, RetryPolicy, Worker, chain, current
from penstock.errors import TaskFailedError

from .conftest import until

AT_ONCE = {"kind": "constant", "base_seconds": 0}


async def test_a_chain_into_a_full_queue_that_the_same_worker_serves_goes_through(
    dsn: str, client: AsyncClient, app: App
) -> None:
    await client.set_queue("work", backoff=AT_ONCE, max_attempts=100)
    await client.create_queue("small", max_depth=1)
    plain: list[int] = []

    @app.handler("work")
    async def settle_beside(message: object) -> None:
        plain.append(1)

    @app.task(queue="work")
    async def first(n: int) -> int:
        return n

    @app.task(queue="small", keep_result=True)
    async def second(n: int) -> int:
        return n

    handles = [await chain(first.s(n), second.s()).enqueue() for n in range(5)]
    await client.enqueue_many("work", range(5))
    async with Worker(app, dsn):
        assert [await handle.result(20) for handle in handles] == list(range(5))

        async def nothing_is_left() -> bool:
            stats = await client.stats("work")
            return stats.ready + stats.leased + stats.scheduled + stats.dead == 0

        await until(nothing_is_left, "everything is settled")
    assert len(plain) == 5


async def test_messages_beside_a_refused_one_are_settled_once(
    dsn: str, client: AsyncClient, app: App
) -> None:
    await client.create_queue("gone")
    runs: list[int] = []

    @app.task(queue="gone")
    async def nowhere() -> None: ...

    @app.task(queue="work", keep_result=True, retry=2)
    async def work(n: int) -> int:
        runs.append(n)
        if n == 3:
            nowhere.enqueue_with_ack()
        return n

    await client.set_queue("work", backoff=AT_ONCE)
    await client.drop_queue("gone")
    handles = [await work.enqueue(n) for n in range(8)]
    async with Worker(app, dsn, queues=["work"]):
        for n, handle in enumerate(handles):
            if n != 3:
                assert await handle.result(20) == n
        with pytest.raises(TaskFailedError, match="queue 'gone' does not exist"):
            await handles[3].result(20)
    assert sorted(runs) == [0, 1, 2, 3, 3, 4, 5, 6, 7]


async def test_a_chain_into_a_dropped_queue_becomes_a_dead_letter_with_the_cause(
    dsn: str, client: AsyncClient, app: App
) -> None:
    await client.set_queue("work", backoff=AT_ONCE)
    await client.create_queue("gone")
    attempts: list[int] = []

    @app.task(queue="work", retry=RetryPolicy(max_attempts=2))
    async def first() -> int:
        attempts.append(current().attempt)
        return 1

    @app.task(queue="gone", keep_result=True)
    async def second(n: int) -> int:
        return n

    await client.drop_queue("gone")
    async with Worker(app, dsn, queues=["work"]):
        handle = await chain(first.s(), second.s()).enqueue()
        with pytest.raises(TaskFailedError, match="queue 'gone' does not exist") as failed:
            await handle.result(20)
    assert failed.value.type == "QueueNotFoundError"
    assert attempts == [1, 2]
    dead = await client.message(handle.id)
    assert (dead.state, dead.attempt) == ("dead", 2)
