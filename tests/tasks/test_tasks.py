"""Tasks: functions that are called through a queue."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from penstock import App, AsyncClient, Client, NewMessage, RetryPolicy, Worker, current, group
from penstock.errors import (
    ConfigurationError,
    InvalidValueError,
    KeyConflictError,
    TaskArgumentsError,
)
from penstock.tasks.task import TASK_HEADER
from penstock.testing import drain_async

from .conftest import until


async def test_tasks_of_a_queue_are_called_with_their_arguments(
    dsn: str, client: AsyncClient, app: App
) -> None:
    calls: list[Any] = []

    @app.task(queue="work")
    async def greet(name: str, times: int = 1) -> None:
        calls.append((name, times, current().id))

    @app.task(queue="work", name="reports:write")
    def write(page: int) -> None:
        calls.append((page, threading.current_thread().name.rpartition("-")[0]))

    async with Worker(app, dsn):
        first = await greet.enqueue("ada")
        second = await greet.enqueue("bob", times=2)
        await asyncio.to_thread(write.enqueue_sync, 7)
        await until(lambda: len(calls) == 3, "three calls")
    assert set(calls) == {
        ("ada", 1, first.id),
        ("bob", 2, second.id),
        (7, "penstock-work"),
    }
    write(8)  # calling the task calls the function, here and now
    assert calls[-1] == (8, "")


async def test_a_call_is_a_message_that_any_language_can_enqueue(
    client: AsyncClient, app: App
) -> None:
    seen: list[Any] = []

    @app.task(queue="work")
    async def add(a: int, b: int = 10) -> None:
        seen.append(a + b)

    handle = await add.enqueue(1)
    message = await client.message(handle.id)
    assert (message.payload, message.headers) == ({"a": 1}, {TASK_HEADER: "add"})
    await client.enqueue("work", {"a": 1, "b": 2}, headers={TASK_HEADER: "add"})
    await drain_async(app, client)
    assert seen == [11, 3]


async def test_a_plain_handler_serves_the_messages_of_no_task(
    client: AsyncClient, app: App
) -> None:
    seen: list[Any] = []

    @app.handler("work")
    async def plain(message: Any) -> None:
        seen.append(message.payload)

    @app.task(queue="work")
    def task() -> None:
        seen.append("task")

    await client.enqueue("work", "plain")
    await task.enqueue()
    await drain_async(app, client)
    assert seen == ["plain", "task"]


async def test_a_worker_leaves_a_task_that_it_does_not_know_to_others(
    dsn: str, client: AsyncClient, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.task(queue="work")(_nothing)
    named: list[object] = ["elsewhere", "elsewhere", 7, None]
    ids = [
        await client.enqueue("work", {}, headers=None if name is None else {TASK_HEADER: name})
        for name in named
    ]
    with caplog.at_level(logging.WARNING, "penstock.worker"):
        async with Worker(app, dsn) as worker:
            await until(lambda: worker.settled == 4, "all are settled")
    found = [await client.message(id) for id in ids]
    assert [(each.state, each.attempt) for each in found] == [("scheduled", 0)] * 4
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert any("lacks the task 'elsewhere' of queue 'work'" in text for text in said)


def _nothing() -> None:
    pass


async def test_a_changed_signature_makes_a_clear_dead_letter(client: AsyncClient, app: App) -> None:
    @app.task(queue="work")
    async def resize(image: int, width: int, format: str = "png") -> None: ...

    for payload in (
        {"image": 1},
        {"image": 1, "width": 2, "height": 3},
        {"image": 1, "width": "x"},
    ):
        await client.enqueue("work", payload, headers={TASK_HEADER: "resize"})
    done = await client.enqueue("work", {"image": 1, "width": 2}, headers={TASK_HEADER: "resize"})
    handled = await drain_async(app, client)
    errors = [each.last_error or "" for each in await client.messages("work", "dead")]
    assert [text.partition(": ")[0] for text in errors] == ["TaskArgumentsError"] * 3
    assert "missing required field `width`" in errors[0]
    assert "unknown field `height`" in errors[1]
    assert "Expected `int`, got `str` - at `$.width`" in errors[2]
    assert (await client.message(done)).state == "done"
    assert len(handled) == 4


async def test_arguments_are_checked_against_the_signature_before_they_are_enqueued(
    client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def add(a: int, /, b: int = 1, *rest: int, c: int, **more: float) -> None: ...

    wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((), {"c": 1}, "missing a required"),
        ((1,), {}, "missing a required"),
        (("one",), {"c": 1}, "Expected `int`, got `str` - at `$.a`"),
        ((1, 2, "3"), {"c": 1}, "at `$.rest[0]`"),
        ((1,), {"c": 1, "x": "y"}, "at `$.more[...]`"),
        ((object(),), {"c": 1}, "values of type object cannot be encoded"),
        ((), {}, "add(a: int, /, b: int = 1, *rest: int, c: int, **more: float) -> None"),
    ]
    for args, kwargs, text in wrong:
        with pytest.raises(TaskArgumentsError) as caught:
            await add.enqueue(*args, **kwargs)
        assert text in str(caught.value)
    assert (await client.stats("work")).ready == 0


async def test_options_of_the_message_are_told_from_arguments(
    client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", priority=5, retry=7)
    async def send(to: str) -> None: ...

    with pytest.raises(TaskArgumentsError, match="options of the message, such as delay=60"):
        await send.enqueue("ada", delya=60)  # type: ignore[call-arg]
    later = send.options(delay=60, key="k", headers={"tenant": "a"})
    handle = await later.options(group="g", unique="unfinished").enqueue("ada")
    found = await client.message(handle.id)
    assert (found.state, found.key, found.group) == ("scheduled", "k", "g")
    assert (found.priority, found.max_attempts) == (5, 7)
    assert found.headers == {"tenant": "a", TASK_HEADER: "send"}
    for name, meant in (("countdown", "delay"), ("prioritty", "priority"), ("x", "There are")):
        with pytest.raises(ConfigurationError, match=f"no option '{name}' .*{meant}"):
            send.options(**{name: 60})
    messages = [send.message("a"), later.options(key=None, priority=1).message("b")]
    assert (await client.enqueue_many(send.queue, messages)).count == 2


async def test_options_may_follow_the_arguments_of_any_call(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def send(to: str, priority: str = "low") -> None: ...

    @app.task(queue="work")
    async def record(**more: int) -> None: ...

    @app.task(queue="work")
    async def fan_out() -> None:
        untyped(send).enqueue_with_ack("acked", key="acked", delay=60)

    def untyped(task: Any) -> Any:
        return task

    async def check(id: int, payload: dict[str, Any], key: str) -> None:
        found = await client.message(id)
        assert (found.payload, found.key, found.state) == (payload, key, "scheduled")
        assert found.priority == 0

    call = {"key": "a", "delay": 60, "headers": {"tenant": "t"}, "unique": "unfinished"}
    handle = await untyped(send).enqueue("ada", "high", **call)
    await check(handle.id, {"to": "ada", "priority": "high"}, "a")
    assert (await client.message(handle.id)).headers == {"tenant": "t", TASK_HEADER: "send"}
    assert handle == send.handle(handle.id)
    with pytest.raises(KeyConflictError):
        await untyped(send).enqueue("ada", key="a", unique="unfinished", on_conflict="error")
    handle = await asyncio.to_thread(untyped(send).enqueue_sync, "ada", key="b", delay=60)
    await check(handle.id, {"to": "ada"}, "b")
    # A parameter of the function comes first.
    handle = await untyped(send).enqueue("ada", priority="high", key="c", delay=60)
    await check(handle.id, {"to": "ada", "priority": "high"}, "c")
    message = untyped(send).message("ada", key="d", delay=60)
    found = await client.enqueue_many("work", [message])
    await check(found.first_id or 0, {"to": "ada"}, "d")
    for number, make in enumerate((untyped(send).s, untyped(send).si)):
        handles = await group(make("ada", key=f"g{number}", delay=60)).enqueue()
        await check(handles.handles[0].id, {"to": "ada"}, f"g{number}")
    assert record.message(delay=60) == NewMessage(
        record.arguments.encode((), {"delay": 60}), headers={TASK_HEADER: "record"}
    )
    with pytest.raises(InvalidValueError, match="delay"):
        await untyped(send).enqueue("ada", delay="soon")
    await fan_out.enqueue()
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 1, "the ack")
    keys = {each.key: each for each in await client.messages("work", "scheduled")}
    await check(keys["acked"].id, {"to": "acked"}, "acked")


async def test_a_call_with_a_connection_among_its_options_is_part_of_its_transaction(
    dsn: str, client: AsyncClient, app: App
) -> None:
    task: Any = app.task(queue="work")(_nothing)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await task.enqueue(connection=connection)
        await connection.rollback()
    assert (await client.stats("work")).ready == 0


async def test_a_call_is_part_of_the_callers_transaction(
    dsn: str, client: AsyncClient, app: App
) -> None:
    task = app.task(queue="work")(_nothing)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await task.options(connection=connection).enqueue()
        await connection.rollback()
    with psycopg.connect(dsn) as connection:
        await asyncio.to_thread(task.options(connection=connection).enqueue_sync)
        connection.rollback()
    assert (await client.stats("work")).ready == 0


async def test_retry_policies_and_timeouts_are_those_of_the_task(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work", retry=RetryPolicy(reject=(ZeroDivisionError,)))
    async def divide(a: int, b: int) -> float:
        return a / b

    @app.task(queue="work", timeout=0.01)
    async def wait() -> None:
        await asyncio.Event().wait()

    rejected, timed_out = await divide.enqueue(1, 0), await wait.enqueue()
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 2, "both are settled")
    assert (await client.message(rejected.id)).state == "dead"
    assert (await client.message(timed_out.id)).last_error == "TimeoutError: timed out after 0.01 s"


async def test_a_task_that_a_task_enqueues_goes_through_the_workers_clients(
    dsn: str, client: AsyncClient
) -> None:
    app = App("postgresql://127.0.0.1:1/nobody")  # must not be used
    calls: list[int] = []

    @app.task(queue="work")
    async def first(n: int) -> None:
        await second.enqueue(n + 1)

    @app.task(queue="work")
    def second(n: int) -> None:
        third.enqueue_sync(n + 1)

    @app.task(queue="work")
    async def third(n: int) -> None:
        calls.append(n)

    await client.enqueue_many("work", [first.message(1)])
    async with Worker(app, dsn):
        await until(lambda: calls, "the third task")
    assert calls == [3]


def test_mistakes_are_refused_when_tasks_are_made() -> None:
    app = App()
    app.task(queue="work")(_nothing)
    with pytest.raises(ConfigurationError, match="task '_nothing' already exists"):
        app.task(queue="other")(_nothing)
    wrong: list[dict[str, Any]] = [
        {"retry": 0},
        {"retry": True},
        {"retry": "5"},
        {"priority": 10},
        {"ttl": 0},
        {"timeout": -1},
        {"process": 3},
    ]
    for options in wrong:
        with pytest.raises(InvalidValueError, match=next(iter(options))):
            app.task(queue="work", name="other", **options)(_nothing)
    with pytest.raises(InvalidValueError, match="name is 'a b'"):
        app.task(queue="work", name="a b")(_nothing)
    with pytest.raises(InvalidValueError, match="a function without yield"):
        app.task(queue="work")(lambda: (yield))
    assert (list(app.tasks), app.queues) == (["_nothing"], ["work"])


async def test_types_that_cannot_be_sent_are_refused_before_the_worker_starts(dsn: str) -> None:
    class Odd: ...

    app = App()

    @app.task(queue="work")
    async def task(value: Model | Odd) -> None: ...

    task.function.__annotations__["value"] = Model | Odd
    with pytest.raises(ConfigurationError, match="arguments of task 'task' cannot be sent"):
        await Worker(app, dsn).start()


class Model(BaseModel):
    name: str


def test_a_sync_application_enqueues_and_closes(dsn: str) -> None:
    app = App(dsn)
    task = app.task(queue="work")(_nothing)
    with Client(dsn) as client:
        client.create_queue("work")
        handle = task.enqueue_sync()
        assert client.message(handle.id).headers == {TASK_HEADER: "_nothing"}
    app.close_sync()
