"""Chains and groups of tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from penstock import App, AsyncClient, Reject, Worker, batch, chain, current, group
from penstock.errors import (
    ConfigurationError,
    InvalidValueError,
    MessageNotFoundError,
    TaskArgumentsError,
    TaskCancelledError,
    TaskFailedError,
)
from penstock.testing import drain_async

Connect = Callable[..., psycopg.Connection[Any]]


async def test_each_step_gets_the_result_of_the_one_before(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def fetch(n: int) -> list[int]:
        return [n, n + 1]

    @app.task(queue="work")
    def total(numbers: list[int], factor: int = 1) -> int:
        return sum(numbers) * factor

    @app.task(queue="work", keep_result=True)
    async def text(n: int, suffix: str) -> str:
        return f"{n}{suffix}"

    @app.task(queue="work", keep_result=timedelta(hours=1))
    async def alone() -> str:
        return "alone"

    async with Worker(app, dsn):
        handle = await chain(fetch.s(3), total.s(factor=10), text.s("!")).enqueue()
        assert await handle.result(30) == "70!"
        assert await asyncio.to_thread(handle.result_sync, 30) == "70!"
        ignoring = await chain(fetch.s(3), alone.si()).enqueue()
        assert await ignoring.result(30) == "alone"
        longer = chain(chain(fetch.s(1), total.s()), text.s(suffix="?"))
        assert await (await asyncio.to_thread(longer.enqueue_sync)).result(30) == "3?"
        assert await (await chain(alone.s()).enqueue()).result(30) == "alone"


async def test_the_arguments_of_all_steps_are_checked_when_a_chain_is_enqueued(app: App) -> None:
    @app.task(queue="work")
    async def first(n: int) -> int:
        return n

    @app.task(queue="work")
    async def second(n: int, factor: int) -> None: ...

    @app.task(queue="work")
    async def nothing() -> None: ...

    @app.task(queue="work")
    async def anything(n: int, other: object) -> None: ...

    for wrong in (
        chain(first.s("x"), second.s(1)),
        chain(first.s(1), second.s()),
        chain(first.s(1), second.s("x")),
        chain(first.s(1), second.s(1, n=2)),
        chain(first.s(1), second.s(1, 2)),
        chain(first.s(1), nothing.s()),
        chain(first.s(1), anything.s(other=(1, 2))),
    ):
        with pytest.raises(TaskArgumentsError):
            await wrong.enqueue()
    with pytest.raises(InvalidValueError):
        chain(first)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError):
        chain(*[first.s()] * 101)


async def test_a_chain_stops_at_a_dead_letter_and_goes_on_after_a_redrive(
    dsn: str, client: AsyncClient, app: App
) -> None:
    broken = True

    @app.task(queue="work")
    async def first() -> int:
        return 1

    @app.task(queue="work", retry=1)
    async def second(n: int) -> int:
        if broken:
            raise ValueError("not today")
        return n + 1

    @app.task(queue="work", keep_result=True)
    async def third(n: int) -> int:
        return n + 1

    async with Worker(app, dsn):
        handle = await chain(first.s(), second.s(), third.s()).enqueue()
        with pytest.raises(
            TaskFailedError, match="in the chain that ends with task 'third' failed"
        ):
            await handle.result(30)
        broken = False
        await client.redrive("work")
        assert await handle.result(30) == 3


async def test_a_chain_is_cancelled_at_the_step_where_it_is(
    dsn: str, client: AsyncClient, app: App
) -> None:
    ran: list[str] = []

    @app.task(queue="work", keep_result=True)
    async def first() -> None:
        ran.append("first")

    @app.task(queue="work", keep_result=True)
    async def later(_: None) -> None:
        ran.append("later")

    handle = await chain(first.s(), later.options(delay=3600).s()).enqueue()
    await drain_async(app, client)
    await handle.cancel()
    with pytest.raises(TaskCancelledError):
        await handle.result(30)
    with pytest.raises(MessageNotFoundError):
        await asyncio.to_thread(handle.cancel_sync)
    assert ran == ["first"]


async def test_a_step_that_acks_in_its_own_transaction_continues_the_chain_there(
    dsn: str, client: AsyncClient, app: App
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as db:
        await db.execute("create table effect (step int)")

        @app.task(queue="work", retry=2)
        async def write(step: int) -> int:
            fails = current().attempt == 1
            async with db.transaction():
                await db.execute("insert into effect values (%s)", [step])
                await current().ack_with(db, result=step + 1)
                if fails:
                    raise ValueError("roll back")
            return step + 1

        @app.task(queue="work", keep_result=True)
        async def last(step: int) -> int:
            return step

        await client.set_queue("work", backoff={"kind": "constant", "base_seconds": 0})
        async with Worker(app, dsn, concurrency=1):
            handle = await chain(write.s(1), write.s(), last.s()).enqueue()
            assert await handle.result(30) == 3
        steps = await (await db.execute("select step from effect order by 1")).fetchall()
        assert steps == [(1,), (2,)]


@pytest.mark.parametrize(
    "header",
    [
        "x",
        {"steps": []},
        {"steps": ["x"]},
        {"steps": [{"queue": "work"}]},
        {"steps": [{"queue": "penstock.tasks", "headers": {}}]},
        {"steps": [{"queue": "work", "headers": {}, "into": "n", "payload": 3}]},
        {"steps": [{"queue": "work", "headers": {}, "into": ["n"], "payload": {}}]},
        {"steps": [{"queue": "work", "headers": {}}], "keep_seconds": -1},
    ],
)
async def test_a_forged_chain_makes_a_dead_letter(
    header: Any, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def first() -> int:
        return 1

    headers = {"penstock-task": "first", "penstock-chain": header}
    id = await client.enqueue("work", {}, headers=headers)
    await drain_async(app, client)
    dead = await client.message(id)
    assert dead.state == "dead"
    assert "penstock-chain is not valid" in (dead.last_error or "")


async def test_a_group_is_enqueued_together(
    dsn: str, client: AsyncClient, app: App, connect: Connect
) -> None:
    await client.create_queue("other")

    @app.task(queue="work", keep_result=True)
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="other", keep_result=True)
    async def half(n: int) -> int:
        return n // 2

    @app.task(queue="missing")
    async def lost() -> None: ...

    with pytest.raises(Exception, match="missing"):
        await group(double.s(1), lost.s()).enqueue()
    counts = "select (penstock.stats('work')).ready"
    assert connect().execute(counts).fetchone() == (0,)
    async with Worker(app, dsn, queues=["work", "other"]):
        handle = await group(double.s(1), half.s(8), chain(double.s(3), half.s())).enqueue()
        assert await handle.results(30) == [2, 4, 3]
        many = await asyncio.to_thread(group(double.s(n) for n in range(50)).enqueue_sync)
        assert await asyncio.to_thread(many.results_sync, 30) == [2 * n for n in range(50)]
    wrong: list[Any] = [[], [double], [handle], [[double.s(1), double]]]
    for calls in wrong:
        with pytest.raises(InvalidValueError, match="group is"):
            group(*calls)


async def test_a_group_can_be_part_of_a_transaction(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def first(n: int) -> int:
        return n

    async with await psycopg.AsyncConnection.connect(dsn) as db:
        await group(first.s(1), chain(first.s(2), first.s())).enqueue(connection=db)
        await chain(first.s(1), first.s()).enqueue(connection=db)
        mine = first.options(connection=db)
        await chain(mine.s(1), first.s()).enqueue()
        await db.rollback()
    assert (await client.stats("work")).ready == 0


async def test_a_connection_that_would_not_be_used_is_refused(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def first(n: int) -> int:
        return n

    async with await psycopg.AsyncConnection.connect(dsn) as db:
        mine = first.options(connection=db)
        for enqueue in (
            group(mine.s(1)).enqueue,
            batch([mine.s(1)]).enqueue,
            batch([first.s(1)], on_finish=mine.s(2)).enqueue,
            chain(first.s(1), mine.s()).enqueue,
            chain(first.s(1), mine.si(2)).enqueue,
        ):
            with pytest.raises(ConfigurationError, match="'first' would not be used"):
                await enqueue()
        with pytest.raises(ConfigurationError, match=r"enqueue\(connection=...\)"):
            mine.message(1)
        with pytest.raises(ConfigurationError, match="takes none"):
            mine.enqueue_with_ack(1)
    assert (await client.stats("work")).ready == 0


async def test_a_task_enqueues_a_chain_with_its_ack(
    dsn: str, client: AsyncClient, app: App
) -> None:
    seen: list[int] = []

    @app.task(queue="work")
    async def step(n: int) -> int:
        seen.append(n)
        return n + 1

    @app.task(queue="work", retry=1)
    async def start(fails: bool) -> None:
        chain(step.s(1), step.s()).enqueue_with_ack()
        if fails:
            raise Reject("no")

    await start.enqueue(True)
    await start.enqueue(False)
    await drain_async(app, client)
    assert seen == [1, 2]


def test_a_chain_is_one_message_that_other_languages_can_read(dsn: str) -> None:
    app = App(dsn)

    @app.task(queue="work")
    async def first(n: int) -> int:
        return n

    message = chain(first.s(1), first.options(priority=3).s()).message()
    assert json.loads(str(message.payload)) == {"n": 1}
    assert message.headers is not None
    [step] = message.headers["penstock-chain"]["steps"]
    assert (step["queue"], step["payload"], step["priority"], step["into"]) == ("work", {}, 3, "n")
    assert step["headers"] == {"penstock-task": "first"}
