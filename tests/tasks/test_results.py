"""Results of tasks: kept with the ack, fetched and awaited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from penstock import App, AsyncClient, Reject, RetryPolicy, Worker, chain, group
from penstock.db.listener import Listener
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import (
    InvalidValueError,
    PenstockError,
    PermissionDeniedError,
    ResultNotFoundError,
    TaskCancelledError,
    TaskExpiredError,
    TaskFailedError,
    translated,
)
from penstock.tasks.waiting import ResultWaiter
from penstock.testing import drain_async
from penstock.worker import Delivery

from .conftest import until

Connect = Callable[..., psycopg.Connection[Any]]


@dataclass
class Receipt:
    number: int
    at: datetime


async def test_a_result_is_awaited_and_typed(dsn: str, client: AsyncClient, app: App) -> None:
    now = datetime.now(UTC)

    @app.task(queue="work", keep_result=True)
    async def pay(amount: int) -> Receipt:
        return Receipt(amount, now)

    @app.task(queue="work", keep_result=timedelta(hours=1))
    def nothing() -> None: ...

    async with Worker(app, dsn):
        handles = [await pay.enqueue(number) for number in range(100)]
        receipts = await asyncio.gather(*(handle.result(30) for handle in handles))
        assert receipts == [Receipt(number, now) for number in range(100)]
        assert await (await nothing.enqueue()).result(30) is None
        sync = await asyncio.to_thread(pay.enqueue_sync, 7)
        results = await asyncio.gather(*(asyncio.to_thread(sync.result_sync, 30) for _ in range(3)))
        assert results == [Receipt(7, now)] * 3
    # Fetched by the id alone, as long as it is kept.
    assert await pay.handle(handles[3].id).result(30) == Receipt(3, now)
    assert (await client.message(handles[3].id)).state == "done"


async def test_waiters_share_one_listening_connection(
    dsn: str, client: AsyncClient, app: App, connect: Connect
) -> None:
    @app.task(queue="work", keep_result=True)
    async def double(n: int) -> int:
        return 2 * n

    handles = [await double.enqueue(n) for n in range(20)]
    waiters = [asyncio.create_task(handle.result(60)) for handle in handles]
    count = "select count(*) from pg_stat_activity where datname = current_database() and "
    listening = count + "application_name = 'penstock listener'"
    db = connect()
    await until(lambda: db.execute(listening).fetchone() == (1,), "the connection that listens")
    await drain_async(app, client)
    assert await asyncio.gather(*waiters) == [2 * n for n in range(20)]
    assert db.execute(listening).fetchone() == (1,)


async def test_no_result_is_lost_between_the_look_and_the_wait(
    dsn: str, client: AsyncClient, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results come at every moment between the enqueue and the wait; only wake-ups find them."""
    monkeypatch.setattr("penstock.tasks.waiting._FIRST_LOOK", 1000.0)

    @app.task(queue="work", keep_result=True)
    async def echo(n: int) -> int:
        return n

    async def ask(n: int) -> int:
        handle = await echo.enqueue(n)
        for _ in range(n % 7):
            await asyncio.sleep(0)
        return await handle.result(60)

    async with Worker(app, dsn, concurrency=5):
        assert await asyncio.gather(*map(ask, range(200))) == list(range(200))


async def test_a_result_is_read_again_soon_after_a_read_has_failed(
    dsn: str,
    client: AsyncClient,
    app: App,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("penstock.tasks.waiting._FIRST_LOOK", 1000.0)
    caplog.set_level(logging.DEBUG, "penstock.tasks")

    @app.task(queue="work", keep_result=True)
    async def echo(n: int) -> int:
        return n

    ids = [(await echo.enqueue(n)).id for n in range(2)]
    await drain_async(app, client)
    connection = ReconnectingConnection(dsn)
    listener = Listener(dsn, client.run)
    waiter = ResultWaiter(lambda command: connection.run(command, timeout=0.2))
    await listener.start()
    try:
        waiter.listen(listener)
        await until(lambda: listener.healthy, "notifications")
        assert (await asyncio.wait_for(waiter.wait(ids[0], None), 30)) == ("done", "0", None)
        with connect().transaction() as locked:
            locked.connection.execute("lock table penstock.result in access exclusive mode")
            second = waiter.wait(ids[1], None)
            await until(lambda: "could not be read" in caplog.text, "the timeout of the read")
        assert (await asyncio.wait_for(second, 30)) == ("done", "1", None)
    finally:
        await waiter.close()
        await listener.stop()
        await connection.close()


async def test_waiters_hear_of_results_after_the_connection_was_lost(
    dsn: str, client: AsyncClient, app: App, connect: Connect
) -> None:
    @app.task(queue="work", keep_result=True)
    async def echo(n: int) -> int:
        return n

    handle = await echo.enqueue(1)
    waiter = asyncio.create_task(handle.result(60))
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'penstock listener'"
    )
    db = connect()
    await until(lambda: db.execute(kill).fetchone(), "the connection that listens")
    await drain_async(app, client)
    assert await waiter == 1


async def test_without_notifications_waiters_poll(
    dsn: str, client: AsyncClient, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "start", Listener.stop)  # as behind a transaction-mode pooler

    @app.task(queue="work", keep_result=True)
    async def echo(n: int) -> int:
        return n

    handle = await echo.enqueue(1)
    waiter = asyncio.create_task(handle.result(60))
    await drain_async(app, client)
    assert await waiter == 1


async def test_a_failure_is_raised_with_its_type_text_and_traceback(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", keep_result=True, retry=RetryPolicy(max_attempts=1))
    async def divide(a: int, b: int) -> float:
        return a / b

    @app.task(queue="work", keep_result=True)
    async def refuse() -> None:
        raise Reject("not on Sundays")

    async with Worker(app, dsn):
        failed, refused = await divide.enqueue(1, 0), await refuse.enqueue()
        with pytest.raises(TaskFailedError) as caught:
            await failed.result(60)
        assert (caught.value.type, caught.value.text) == ("ZeroDivisionError", "division by zero")
        assert "in divide\n    return a / b" in (caught.value.traceback or "")
        with pytest.raises(TaskFailedError, match="not on Sundays") as caught:
            await refused.result(60)
        assert (caught.value.type, caught.value.traceback) == (None, None)


async def test_calls_that_never_end_have_their_own_errors(
    client: AsyncClient, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.tasks.waiting._FIRST_LOOK", 0.01)

    @app.task(queue="work", keep_result=True)
    async def task() -> None: ...

    @app.task(queue="work")
    async def forgetful() -> None: ...

    cancelled = await task.enqueue()
    waiter = asyncio.create_task(cancelled.result(60))
    await cancelled.cancel()
    with pytest.raises(TaskCancelledError, match="was cancelled"):
        await waiter
    replaced = await task.options(key="k").enqueue()
    await task.options(key="k").enqueue()
    expired = await task.options(ttl=0.001).enqueue()
    unkept = await forgetful.enqueue()
    with pytest.raises(TimeoutError, match=r"of task 'forgetful' has not ended within 0.05 s"):
        await unkept.result(0.05)
    with pytest.raises(TaskExpiredError):
        await (await task.options(delay=3600, ttl=0.001).enqueue()).result(60)
    await drain_async(app, client)
    with pytest.raises(TaskExpiredError):
        await expired.result(60)
    with pytest.raises(ResultNotFoundError, match="keep_result=True"):
        await unkept.result(60)
    with pytest.raises(ResultNotFoundError):
        await task.handle(10**12).result(60)
    assert await replaced.result(60) is None  # "replace" keeps the message and its id


async def test_results_are_deleted_when_their_time_is_over(
    client: AsyncClient, app: App, connect: Connect
) -> None:
    @app.task(queue="work", keep_result=1)
    async def task() -> int:
        return 1

    handle = await task.enqueue()
    await drain_async(app, client)
    db = connect()
    db.execute("update penstock.result set expires_at = clock_timestamp()")
    assert db.execute("select * from penstock.get_results(%s)", [[handle.id]]).fetchall() == []
    assert db.execute("select penstock.drop_expired_results()").fetchone() == (1,)
    with pytest.raises(ResultNotFoundError):
        await handle.result(60)


async def test_results_that_cannot_be_stored_make_dead_letters(
    client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", keep_result=True)
    async def odd() -> Any:
        return object()

    @app.task(queue="work", keep_result=True)
    async def large() -> str:
        return "x" * 2_000_000

    for task in (odd, large):
        await task.enqueue()
    await drain_async(app, client)
    errors = [each.last_error or "" for each in await client.messages("work", "dead")]
    assert "values of type object cannot be encoded" in errors[0]
    assert "at most 1048576 are kept" in errors[1]


async def test_what_a_task_enqueues_with_its_ack_comes_with_its_result_or_not_at_all(
    dsn: str, client: AsyncClient, app: App
) -> None:
    seen: list[int] = []

    @app.task(queue="work", keep_result=True, retry=RetryPolicy(max_attempts=1))
    async def first(n: int) -> int:
        second.enqueue_with_ack(n)
        second.options(priority=3, delay=0.001, ttl=60, key=str(n)).enqueue_with_ack(n + 1)
        if n > 5:
            raise ValueError("too large")
        return n

    @app.task(queue="work")
    def second(n: int) -> None:
        seen.append(n)

    @app.handler("work")
    async def plain(message: Any) -> None:
        second.enqueue_with_ack(message.payload)

    async with Worker(app, dsn):
        good, bad = await first.enqueue(1), await first.enqueue(10)
        await client.enqueue("work", 100)
        assert await good.result(60) == 1
        with pytest.raises(TaskFailedError):
            await bad.result(60)
        await until(lambda: len(seen) == 3, "what was enqueued")
    assert sorted(seen) == [1, 2, 100]


async def test_groups_and_plain_messages_are_enqueued_with_an_ack_too(
    client: AsyncClient, app: App
) -> None:
    await client.create_queue("plain")
    ran: list[int] = []

    @app.task(queue="work")
    async def step(n: int) -> int:
        ran.append(n)
        return n + 1

    @app.task(queue="work", retry=RetryPolicy(max_attempts=1))
    async def fan_out(n: int) -> None:
        group(step.s(n), chain(step.s(n + 1), step.s())).enqueue_with_ack()
        if n > 5:
            raise ValueError("too large")

    @app.handler("work")
    async def plain(message: Delivery) -> None:
        n = message.payload
        at = datetime(2040, 1, 1, tzinfo=UTC)
        message.enqueue_with_ack("plain", {"n": n}, key="k", visible_at=at, headers={"a": 1})
        message.enqueue_with_ack("plain", n, delay=60, on_conflict="skip", priority=2)
        if n > 5:
            raise Reject("too large")

    for n in (1, 10):
        await fan_out.enqueue(n)
        await client.enqueue("work", n)
    await drain_async(app, client, raise_errors=False)
    assert sorted(ran) == [1, 2, 3]
    keyed, later = sorted(await client.messages("plain", "scheduled"), key=lambda m: m.id)
    assert (keyed.payload, keyed.key, keyed.headers) == ({"n": 1}, "k", {"a": 1})
    assert keyed.visible_at == datetime(2040, 1, 1, tzinfo=UTC)
    assert (later.payload, later.priority) == (1, 2)
    assert len(await client.messages("work", "dead")) == 2
    with pytest.raises(PenstockError, match="no handler is running here"):
        group(step.s(1)).enqueue_with_ack()


async def test_a_message_of_bytes_is_refused_with_an_ack(client: AsyncClient, app: App) -> None:
    @app.handler("work")
    async def plain(message: Delivery) -> None:
        message.enqueue_with_ack("work", b"bytes")

    await client.enqueue("work", 1)
    with pytest.raises(InvalidValueError, match="payload is b'bytes'; allowed: a JSON value"):
        await drain_async(app, client)


async def test_a_lost_lease_keeps_no_result_and_enqueues_nothing(
    client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", keep_result=True)
    async def first() -> int:
        second.enqueue_with_ack()
        await client.cancel(handle.id)
        return 1

    @app.task(queue="work")
    async def second() -> None: ...

    handle = await first.enqueue()
    await drain_async(app, client)
    with pytest.raises(TaskCancelledError):
        await handle.result(60)
    assert (await client.stats("work")).ready == 0


def test_a_consumer_may_not_enqueue_with_an_ack(dsn: str, connect: Connect) -> None:
    db = connect()
    db.execute("select penstock.create_queue('work')")
    db.execute("select penstock.enqueue('work', '1')")
    db.execute("set role penstock_consumer")
    lease = db.execute("select id, token from penstock.claim('work')").fetchone()
    assert lease is not None
    complete = "select penstock.complete_many(array[%s], array[%s], array[%s]::jsonb[], '{60}', %s)"
    smuggled = f'[{{"after": {lease[0]}, "queue": "work", "payload": 1}}]'
    with pytest.raises(PermissionDeniedError, match="only producers may enqueue"), translated():
        db.execute(complete.encode(), [*lease, "1", smuggled])
    assert db.execute(complete.encode(), [*lease, "1", None]).fetchall() == [(lease[0],)]
    db.execute("reset role")
    db.execute("set role penstock_producer")
    found = db.execute("select * from penstock.get_results(%s)", [[lease[0]]]).fetchone()
    assert found == (lease[0], "done", 1, None)


async def test_a_task_awaits_the_result_of_another(dsn: str, client: AsyncClient, app: App) -> None:
    @app.task(queue="work", keep_result=True)
    async def outer(n: int) -> int:
        return 1 + await (await inner.enqueue(n)).result(60)

    @app.task(queue="work", keep_result=True)
    async def inner(n: int) -> int:
        return 10 * n

    async with Worker(app, dsn, concurrency=2):
        assert await (await outer.enqueue(4)).result(60) == 41


async def test_an_async_task_may_not_block_the_loop_of_its_worker(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", keep_result=True)
    def double(n: int) -> int:
        return 2 * n

    @app.task(queue="work", keep_result=True, retry=1)
    async def blocks() -> int:
        return double.enqueue_sync(1).result_sync(60)

    @app.task(queue="work", keep_result=True, retry=1)
    def waits() -> int:
        return double.enqueue_sync(1).result_sync(60)

    async with Worker(app, dsn):
        with pytest.raises(TaskFailedError, match="instead of result_sync"):
            await (await blocks.enqueue()).result(60)
        assert await (await waits.enqueue()).result(60) == 2
