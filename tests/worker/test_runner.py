"""How handlers are run: timeouts, leases, middleware, what surrounds them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import psycopg
import pytest

from penstock import AsyncClient
from penstock.errors import LeaseLostError
from penstock.model.queue import Backoff
from penstock.worker import App, Delivery, RetryPolicy, Worker
from penstock.worker.handlers import Call

from .conftest import until


async def test_a_handler_that_takes_too_long_is_cancelled_and_tried_again(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", backoff={"kind": "constant", "base_seconds": 0})
    app = App()
    runs: list[str] = []

    @app.handler("work", timeout=0.1)
    async def work(message: Delivery) -> None:
        if message.attempt == 1:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                runs.append("cancelled")
                raise
        runs.append("ended")

    id = await client.enqueue("work", 1)
    async with Worker(app, dsn):
        await until(lambda: "ended" in runs, "the second attempt")
    message = await client.message(id)
    assert (runs, message.state, message.attempt) == (["cancelled", "ended"], "done", 2)
    assert message.attempts[0].error == "TimeoutError: timed out after 0.1 s"


async def test_a_thread_whose_handler_timed_out_keeps_its_slot_until_it_ends(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    running: list[int] = []
    most: list[int] = []
    go_on = threading.Event()

    @app.handler("work", timeout=0.5, concurrency=2, retry=RetryPolicy(max_attempts=1))
    def work(message: Delivery) -> None:
        running.append(message.id)
        most.append(len(running))
        go_on.wait(120)
        running.remove(message.id)

    ids = [await client.enqueue("work", n) for n in range(5)]

    async def dead() -> bool:
        return (await client.stats("work")).dead == 2

    async with Worker(app, dsn):
        await until(dead, "two have timed out")
        assert len(running) == 2
        go_on.set()
        await until(lambda: len(most) == 5, "the others had their turn")
    assert max(most) == 2
    last_error = (await client.message(ids[0])).last_error or ""
    assert last_error.splitlines()[0] == "TimeoutError: timed out after 0.5 s"


async def test_leases_are_kept_while_handlers_run_and_messages_wait_their_turn(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", lease_seconds=5)
    app = App()
    runs: list[int] = []

    @app.handler("work", concurrency=1)
    async def work(message: Delivery) -> None:
        runs.append(message.id)
        await asyncio.sleep(8)

    ids = [await client.enqueue("work", n) for n in range(2)]
    async with Worker(app, dsn), Worker(app, dsn):
        await until(lambda: len(runs) == 2, "both were begun")
    assert sorted(runs) == ids
    assert [(await client.message(id)).attempt for id in ids] == [1, 1]
    assert {(await client.message(id)).state for id in ids} == {"done"}


async def test_a_handler_that_lost_its_lease_is_cancelled_and_settles_nothing(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work", lease_seconds=6)
    app = App()
    began = asyncio.Event()
    ended: list[str] = []

    @app.handler("work")
    async def work(message: Delivery) -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled" if message.is_lost else "?")
            with pytest.raises(LeaseLostError):
                message.raise_if_lost()
            raise

    id = await client.enqueue("work", 1)
    async with Worker(app, dsn) as worker:
        await began.wait()
        await client.cancel(id)
        await until(lambda: ended, "the handler was cancelled")
        (runner,) = worker.runners
        await until(lambda: not runner.running, "the run is over")
        assert runner.counters.outcomes()["lost"] == 1
    assert ended == ["cancelled"]
    assert (await client.message(id)).state == "cancelled"


async def test_a_retry_policy_rejects_what_it_names_and_waits_as_it_says(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    policy = RetryPolicy(
        backoff=Backoff(kind="constant", base_seconds=0, jitter=0),
        max_attempts=3,
        reject=(KeyError,),
    )

    @app.handler("work", retry=policy)
    async def work(message: Delivery) -> None:
        raise KeyError("to") if message.payload == "malformed" else OSError("down")

    malformed, failing = [await client.enqueue("work", name) for name in ("malformed", "failing")]

    async def both_dead() -> bool:
        return (await client.stats("work")).dead == 2

    async with Worker(app, dsn):
        await until(both_dead, "both are dead letters")
    assert (await client.message(malformed)).attempt == 1
    message = await client.message(failing)
    assert message.attempt == 3
    assert (message.last_error or "").splitlines()[0] == "OSError: down"


async def test_middleware_surrounds_every_handler_the_first_one_outermost(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("async")
    await client.create_queue("sync")
    app = App()
    order: list[str] = []
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")

    @app.middleware
    async def outer(delivery: Delivery, call_next: Call) -> Any:
        tenant.set(delivery.headers["tenant"])
        order.append("outer")
        try:
            return await call_next(delivery)
        finally:
            order.append("out")

    @app.middleware
    async def inner(delivery: Delivery, call_next: Call) -> Any:
        order.append("inner")
        return await call_next(delivery)

    @app.handler("async")
    async def in_loop(message: Delivery) -> None:
        order.append(f"loop {tenant.get()}")

    @app.handler("sync")
    def in_thread(message: Delivery) -> None:
        order.append(f"thread {tenant.get()}")

    async with Worker(app, dsn):
        await client.enqueue("async", 1, headers={"tenant": "a"})
        await until(lambda: order[-1:] == ["out"], "the first")
        await client.enqueue("sync", 1, headers={"tenant": "b"})
        await until(lambda: order.count("out") == 2, "the second")
    assert order == ["outer", "inner", "loop a", "out", "outer", "inner", "thread b", "out"]
    assert tenant.get() == "nobody"


async def test_what_a_handler_sets_in_its_context_is_not_seen_by_the_next(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[int] = []

    @app.handler("work", concurrency=1)
    async def work(message: Delivery) -> None:
        seen.append(variable.get())
        variable.set(message.id)
        if message.payload % 2:
            await asyncio.sleep(0.001)
        assert variable.get() == message.id

    await client.enqueue_many("work", range(20))
    async with Worker(app, dsn):
        await until(lambda: len(seen) == 20, "all twenty")
    assert set(seen) == {0}


async def test_as_many_run_at_once_as_the_handler_says_and_no_more(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    running = most = count = 0

    @app.handler("work", concurrency=7)
    async def work(message: Delivery) -> None:
        nonlocal running, most, count
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        count += 1

    await client.enqueue_many("work", range(100))
    async with Worker(app, dsn):
        await until(lambda: count == 100, "all hundred")
    assert most == 7


async def test_only_quick_handlers_have_messages_claimed_ahead_and_they_burn_no_attempt(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    handled = waiting = 0
    attempts: set[int] = set()
    pause, go_on = 0, asyncio.Event()

    @app.handler("work", concurrency=4)
    async def work(message: Delivery) -> None:
        nonlocal handled, waiting
        if handled >= pause:
            waiting += 1
            await go_on.wait()
            waiting -= 1
        handled += 1
        attempts.add(message.attempt)

    async def far_ahead() -> bool:
        stats = await client.stats("work")
        settled = 2000 - stats.ready - stats.leased
        return settled == handled >= 1000 and stats.leased > 12

    async def only_four_leased() -> bool:
        return (await client.stats("work")).leased == 4

    await client.enqueue_many("work", range(2000))
    async with Worker(app, dsn) as worker:
        # Nothing is known of the handler yet: another worker may have the rest.
        await until(lambda: waiting == 4, "four to begin")
        assert (await client.stats("work")).leased == 4

        pause = 1000
        go_on.set()
        go_on = asyncio.Event()
        await until(far_ahead, "more to be claimed than can be begun at once")
        # Stopped there, it gives back unstarted messages at once, not when the leases expire.
        stopping = asyncio.create_task(worker.drain())
        await until(only_four_leased, "the rest to be given back")
        pause = 2000
        go_on.set()
        await stopping
    async with Worker(app, dsn):
        await until(lambda: handled == 2000, "all of them")
    assert attempts == {1}


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handler_acks_in_its_own_transaction(
    dsn: str, client: AsyncClient, commits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_queue("orders", backoff={"kind": "constant", "base_seconds": 3600})
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("create table shipped (id bigint)")
        app = App()
        runs: list[int] = []

        @app.handler("orders")
        async def ship(message: Delivery) -> None:
            runs.append(message.id)
            async with connection.transaction():
                await connection.execute("insert into shipped values (%s)", [message.id])
                await message.ack_with(connection)
                if not commits:
                    raise ValueError("out of stock")

        id = await client.enqueue("orders", 1)
        async with Worker(app, dsn):
            await until(lambda: runs, "it ran")
        shipped = await (await connection.execute("select count(*) from shipped")).fetchone()
    message = await client.message(id)
    assert (message.state, shipped) == (("done", (1,)) if commits else ("scheduled", (0,)))
    assert "was lost" not in caplog.text


async def test_a_handler_in_a_thread_acks_in_its_own_transaction(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("orders")
    app = App()
    runs: list[int] = []

    @app.handler("orders")
    def ship(message: Delivery) -> None:
        with psycopg.connect(dsn) as connection:
            message.ack_with_sync(connection)
        runs.append(message.id)

    id = await client.enqueue("orders", 1)
    async with Worker(app, dsn):
        await until(lambda: runs, "it ran")
    assert (await client.message(id)).state == "done"


async def test_a_handler_that_exits_has_failed_and_the_worker_goes_on(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("work")
    app = App()
    runs: list[int] = []

    @app.handler("work")
    async def work(message: Delivery) -> None:
        runs.append(message.payload)
        if message.payload == 1:
            raise SystemExit(3)

    first = await client.enqueue("work", 1)
    async with Worker(app, dsn):
        await until(lambda: runs == [1], "the first")
        await client.enqueue("work", 2)
        await until(lambda: runs == [1, 2], "the second")
    assert (await client.message(first)).last_error == "SystemExit: 3"


async def test_a_message_of_a_long_transaction_is_handled_though_floors_have_passed_it(
    dsn: str, client: AsyncClient
) -> None:
    """By the claim after the wake-up of its commit: the safety net finds nothing."""
    await client.create_queue("orders", keep_history=0)
    handled: set[int] = set()
    app = App()

    @app.handler("orders")
    async def ship(message: Delivery) -> None:
        handled.add(message.id)

    floor = "select pg_sequence_last_value(floors[1]) from penstock.queue where name = 'orders'"
    async with (
        await psycopg.AsyncConnection.connect(dsn) as block,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin,
        Worker(app, dsn),
    ):
        late = await _value(block, "select penstock.enqueue('orders', '1')")

        async def floor_has_passed() -> bool:
            sent = await client.enqueue("orders", 2)
            await until(lambda: sent in handled, "a quick message")
            return bool((await _value(admin, floor) or 0) > late)

        await until(floor_has_passed, "the floor is above the open transaction")
        assert late not in handled
        await block.commit()
        await until(lambda: late in handled, "the message of the long transaction")
        assert await _value(admin, "select penstock.rescans_that_found()") == 0


async def _value(connection: psycopg.AsyncConnection[Any], query: str) -> Any:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]
