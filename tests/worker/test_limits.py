"""Limits hold with many workers at once, and after some of them were killed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from time import monotonic

import psycopg
import pytest

from penstock import AsyncClient, NewMessage
from penstock.commands.write import workers
from penstock.worker import App, Delivery, Worker, claimer

from .conftest import until

WORKERS = 4


async def serve(stack: AsyncExitStack, app: App, dsn: str, count: int = WORKERS) -> None:
    for _ in range(count):
        await stack.enter_async_context(Worker(app, dsn))


async def test_no_more_are_in_flight_than_the_queue_allows(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work", max_in_flight=5)
    app = App()
    running = most = count = 0

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        nonlocal running, most, count
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        count += 1

    await client.enqueue_many("work", range(100))
    async with AsyncExitStack() as stack:
        await serve(stack, app, dsn)
        await until(lambda: count == 100, "all hundred")
    assert 2 <= most <= 5
    assert (await client.stats("work")).leased == 0


async def test_what_a_crashed_worker_held_is_free_again_when_its_leases_ran_out(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", max_in_flight=3)
    await client.enqueue_many("work", range(6))
    held = await client.claim("work", 10, worker="crashed", lease_seconds=5)
    assert len(held) == 3
    assert await client.claim("work", 10, worker="another") == []
    app = App()
    done: list[tuple[int, int]] = []

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        done.append((message.id, message.attempt))

    async with Worker(app, dsn):
        await until(lambda: len(done) == 6, "all six, those of the crashed worker too")
    crashed = {lease.id for lease in held}
    assert {attempt for id, attempt in done if id in crashed} == {2}
    assert {attempt for id, attempt in done if id not in crashed} == {1}


async def test_no_more_are_claimed_in_a_second_than_the_queue_allows(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", throughput_limit=20)
    app = App()
    begun: list[float] = []

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        begun.append(monotonic())

    await client.enqueue_many("work", range(60))
    async with AsyncExitStack() as stack:
        await serve(stack, app, dsn)
        await until(lambda: len(begun) == 60, "all sixty")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute(
            "select array_agg(extract(epoch from last_claimed_at)::float8) from penstock.history"
        )
        row = await cursor.fetchone()
    assert row is not None
    claimed = sorted(row[0])
    assert len(claimed) == 60
    # A bucket of one second's worth: in any stretch of time, that and what flowed in meanwhile.
    # Times are noted after tokens are spent: on a busy machine, a quarter of a second later.
    for first, since in enumerate(claimed):
        for last in range(first, len(claimed)):
            assert last - first + 1 <= 20 + 20 * (claimed[last] - since + 0.25) + 1


async def register(dsn: str, to_us: str | None = None) -> int:
    """When the bucket of the queue is full again, in microseconds; `to_us` sets it first."""
    query = "select pg_sequence_last_value(throughput_register) from penstock.queue"
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        if to_us is not None:
            await connection.execute(f"select setval(throughput_register, {to_us}) from ({ALL}) q")
        row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return int(row[0])


ALL = (
    "select *, (date_part('epoch', clock_timestamp()) * 1e6)::bigint as now_us from penstock.queue"
)


@pytest.mark.parametrize("workers", [1, 4])
async def test_a_limit_is_used_up_without_polls(
    dsn: str, client: AsyncClient, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Each token is claimed when it is there, not when a worker happens to look."""
    monkeypatch.setattr(claimer, "POLL_SECONDS", 3600.0)
    await client.create_queue("work", throughput_limit=5)
    app = App()
    done: set[int] = set()

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        done.add(message.id)

    await client.enqueue_many("work", range(30))
    async with AsyncExitStack() as stack:
        await serve(stack, app, dsn, workers)
        await until(lambda: len(done) == 30, "all thirty")


async def test_who_waits_asks_again_while_a_claim_may_be_spending_the_token(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", throughput_limit=1)
    await client.enqueue_many("work", range(3))
    assert len(await client.claim("work", 3)) == 1

    async def waits_after(to_us: str) -> float | None:
        await register(dsn, to_us)
        return (await client.run(workers.attend(["work"], 10)))["work"]

    later = await waits_after("q.now_us + 900000")
    assert later is not None
    assert 0 < later < 1
    assert await waits_after("q.now_us") == 0.02, "there is a token now: soon it may be spent"
    assert await waits_after("q.now_us - 5000000") is None, "no claim spends tokens"
    ahead = await waits_after("q.now_us + 3600000000")
    assert ahead == 1, "the clock was put back"


async def test_a_late_claim_does_not_delay_the_next_token(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work", throughput_limit=1)
    await client.enqueue_many("work", range(100))
    assert len(await client.claim("work", 1)) == 1

    async def anchored() -> bool:
        """False if the claim came too late to tell."""
        before = await register(dsn, "q.now_us + 45000")
        claimed = await client.claim("work", 1)
        after = await register(dsn)
        assert len(claimed) == 1
        return after - before == 1_000_000

    await until(anchored, "a claim in time")


async def test_a_group_is_handled_in_order_one_at_a_time(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work", backoff={"kind": "constant", "base_seconds": 0})
    app = App()
    running: set[str | None] = set()
    handled: dict[str | None, list[int]] = defaultdict(list)

    @app.handler("work", concurrency=8)
    async def work(message: Delivery) -> None:
        assert message.group not in running, "two of one group at once"
        running.add(message.group)
        try:
            await asyncio.sleep(0.001)
            if message.payload % 7 == 0 and message.attempt == 1:
                raise ValueError("the next one must wait for this one's second attempt")
            handled[message.group].append(message.payload)
        finally:
            running.discard(message.group)

    groups = [f"customer-{number}" for number in range(5)]
    messages = [NewMessage(n, group=group) for n in range(20) for group in groups]
    await client.enqueue_many("work", messages)
    async with AsyncExitStack() as stack:
        await serve(stack, app, dsn, 3)
        await until(lambda: sum(map(len, handled.values())) == 100, "all hundred")
    assert handled == {group: list(range(20)) for group in groups}


async def test_the_higher_priority_is_begun_first(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("work")
    app = App()
    order: list[int] = []

    @app.handler("work", concurrency=1)
    async def work(message: Delivery) -> None:
        order.append(message.priority)

    messages = [NewMessage(n, priority=n % 3) for n in range(30)]
    await client.enqueue_many("work", messages)
    async with Worker(app, dsn):
        await until(lambda: len(order) == 30, "all thirty")
    assert order == [2] * 10 + [1] * 10 + [0] * 10


async def test_a_worker_holds_no_more_bytes_than_it_may(dsn: str, client: AsyncClient) -> None:
    """The handlers wait for one another, so that the worker holds as much as it can."""
    await client.create_queue("work")
    await client.create_queue("other")
    await client.enqueue_many("work", ["x" * 100_000, b"x" * 100_000] * 10)
    await client.enqueue("other", "x" * 200_000)
    app = App()
    running = most = 0
    done: list[int] = []
    go_on = asyncio.Event()

    async def handle(message: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        done.append(message.id)

    app.handler("work", concurrency=50)(handle)
    app.handler("other")(handle)
    async with Worker(app, dsn, max_bytes=700_000) as worker:
        await until(lambda: running >= 5, "as many as the limit allows")
        held = [len(runner.held()) for runner in worker.runners]
        # 350,000 bytes for each queue. A message of any size fits if nothing else is held.
        assert held == [4, 1]
        assert worker.runners[0].room == 0
        go_on.set()
        await until(lambda: len(done) == 21, "all messages")
        await until(lambda: all(runner._bytes == 0 for runner in worker.runners), "nothing is held")
    assert most == 5
    assert (await client.stats("work")).leased == 0
