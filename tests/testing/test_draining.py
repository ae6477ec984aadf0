"""`drain`: the handlers of an app, run in a test until nothing is ready."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from penstock import AsyncClient, Client
from penstock.errors import ConfigurationError
from penstock.testing import Clock, Handled, drain, drain_async
from penstock.worker import App, Delivery, Reject, Retry, Snooze

Drain = Callable[..., Awaitable[list[Handled]]]


@pytest.fixture(params=["sync", "async"])
async def draining(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Drain]:
    """`await draining(app, ...)`, with either kind of client."""
    if request.param == "async":
        async with AsyncClient(dsn) as client:
            yield lambda app, *queues, **options: drain_async(app, client, *queues, **options)
    else:
        with Client(dsn) as client:
            # As a test without an event loop has it.
            yield lambda app, *queues, **options: asyncio.to_thread(
                drain, app, client, *queues, **options
            )


@pytest.fixture
def queues(dsn: str) -> Client:
    with Client(dsn) as client:
        client.create_queue("emails")
        client.create_queue("receipts")
    return Client(dsn)


async def test_everything_ready_is_handled_in_order(draining: Drain, queues: Client) -> None:
    app = App()
    came: list[Any] = []

    @app.handler("emails")
    async def send(message: Delivery) -> None:
        came.append((message.payload, message.attempt, message.headers))

    queues.enqueue_many("emails", range(5))
    queues.enqueue("emails", "later", delay=60)
    done = await draining(app)
    assert came == [(n, 1, {}) for n in range(5)]
    assert [each.lease.payload for each in done] == list(range(5))
    assert all(each.outcome is None and each.error is None for each in done)
    stats = queues.stats("emails")
    assert (stats.ready, stats.leased, stats.scheduled) == (0, 0, 1)
    assert await draining(app) == []


async def test_what_handlers_enqueue_is_handled_too(draining: Drain, queues: Client) -> None:
    app = App()
    came: list[str] = []

    @app.handler("receipts")
    def print_it(message: Delivery) -> None:
        came.append(message.payload)

    @app.handler("emails")
    async def send(message: Delivery) -> None:
        await message.client.enqueue("receipts", f"receipt of {message.payload}")

    queues.enqueue("emails", "a")
    await draining(app)
    assert came == ["receipt of a"]


async def test_outcomes_settle_as_a_worker_would(draining: Drain, queues: Client) -> None:
    app = App()
    outcomes = {"retry": Retry(0), "snooze": Snooze(60), "reject": Reject("no such user")}

    @app.handler("emails")
    async def send(message: Delivery) -> Any:
        if message.attempt == 1 and message.payload in outcomes:
            raise outcomes[message.payload]

    ids = {name: queues.enqueue("emails", name) for name in ("retry", "snooze", "reject", "done")}
    done = await draining(app)
    assert [type(each.outcome).__name__ for each in done if each.outcome] == [
        *("Retry", "Snooze", "Reject"),
    ]
    states = {name: queues.message(id).state for name, id in ids.items()}
    assert states == {"retry": "done", "snooze": "scheduled", "reject": "dead", "done": "done"}
    assert queues.message(ids["reject"]).last_error == "no such user"


async def test_an_error_of_a_handler_fails_the_test_and_its_message_is_settled(
    draining: Drain, queues: Client
) -> None:
    app = App()

    @app.handler("emails")
    def send(message: Delivery) -> None:
        raise ZeroDivisionError("oh")

    id = queues.enqueue("emails", 1)
    with pytest.raises(ZeroDivisionError, match="oh"):
        await draining(app)
    message = queues.message(id)
    assert (message.state, message.attempt) == ("scheduled", 1)
    assert "oh" in str(message.last_error)


async def test_errors_can_be_looked_at_instead(draining: Drain, queues: Client, dsn: str) -> None:
    app = App()

    @app.handler("emails")
    async def send(message: Delivery) -> None:
        raise ZeroDivisionError(f"attempt {message.attempt}")

    queues.set_queue("emails", max_attempts=2)
    id = queues.enqueue("emails", 1)
    with Clock(dsn) as clock:
        [first] = await draining(app, raise_errors=False)
        clock.move(hours=1)
        [second] = await draining(app, raise_errors=False)
    assert (str(first.error), str(second.error)) == ("attempt 1", "attempt 2")
    assert queues.message(id).state == "dead"


async def test_a_timeout_is_an_error(draining: Drain, queues: Client) -> None:
    app = App()

    @app.handler("emails", timeout=0.01)
    async def send(message: Delivery) -> None:
        await asyncio.Event().wait()

    queues.enqueue("emails", 1)
    with pytest.raises(TimeoutError):
        await draining(app)


async def test_middleware_runs_around_handlers(draining: Drain, queues: Client) -> None:
    app = App()
    said: list[str] = []

    @app.middleware
    async def around(delivery: Delivery, call_next: Any) -> Any:
        said.append("before")
        result = await call_next(delivery)
        said.append("after")
        return result

    @app.handler("emails")
    def send(message: Delivery) -> None:
        said.append("handler")

    queues.enqueue("emails", 1)
    await draining(app)
    assert said == ["before", "handler", "after"]


async def test_a_handler_that_feeds_itself_is_stopped(draining: Drain, queues: Client) -> None:
    app = App()

    @app.handler("emails")
    async def send(message: Delivery) -> None:
        await message.client.enqueue("emails", message.payload + 1)

    queues.enqueue("emails", 0)
    with pytest.raises(AssertionError, match="10 messages were handled"):
        await draining(app, limit=10)


async def test_only_the_queues_named_are_drained(draining: Drain, queues: Client) -> None:
    app = App()
    app.handler("emails")(lambda message: None)
    app.handler("receipts")(lambda message: None)
    queues.enqueue("emails", 1)
    queues.enqueue("receipts", 1)
    assert [each.lease.queue for each in await draining(app, "receipts")] == ["receipts"]
    assert queues.stats("emails").ready == 1
    with pytest.raises(ConfigurationError, match="Did you mean"):
        await draining(app, "email")


def test_a_test_may_keep_it_all_in_a_transaction_of_its_own(dsn: str, queues: Client) -> None:
    app = App()
    came: list[Any] = []
    app.handler("emails")(lambda message: came.append(message.payload))
    with psycopg.connect(dsn) as connection:
        client = Client(connection=connection)
        client.enqueue("emails", "never committed")
        drain(app, client)
        assert came == ["never committed"]
        connection.rollback()
    assert queues.stats("emails").ready == 0
    assert queues.messages("emails", "done") == []


_pids: list[int] = []
process_app = App()


@process_app.task(queue="emails", process=True)
def note_pid(text: str) -> None:
    assert text == "now"
    _pids.append(os.getpid())


@process_app.task(queue="emails", process=True)
async def note_pid_async() -> None:
    _pids.append(os.getpid())


async def test_tasks_for_processes_run_in_the_process_of_the_test(
    draining: Drain, queues: Client
) -> None:
    _pids.clear()
    queues.enqueue_many("emails", [note_pid.message("now"), note_pid_async.message()])
    assert [each.error for each in await draining(process_app)] == [None, None]
    assert _pids == [os.getpid()] * 2
