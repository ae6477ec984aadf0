"""The attempt that makes a dead letter: what is logged, and what stays with the message."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from penstock import App, AsyncClient, Backoff, Reject, RetryPolicy, Worker
from penstock.worker.outcomes import MAX_ERROR

from .conftest import until


def blame_the_payload(message: Any) -> None:
    raise ValueError(f"cannot read {message.payload!r}")


def dead_letter_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_the_last_failure_is_an_error_with_its_traceback_and_the_message_keeps_it(
    dsn: str, client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(message: Any) -> None:
        blame_the_payload(message)

    at_once = Backoff(kind="constant", base_seconds=0)
    await client.create_queue("orders", max_attempts=2, backoff=at_once)
    id = await client.enqueue("orders", "x")
    app = App()
    app.handler("orders")(handle)
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 2, "both attempts are settled")
    message = await client.message(id)
    assert message.state == "dead"
    first, _, rest = (message.last_error or "").partition("\n")
    assert first == "ValueError: cannot read 'x'"
    assert "Traceback (most recent call last)" in rest
    assert "blame_the_payload" in rest
    [record] = dead_letter_records(caplog)
    assert f"message {id} becomes a dead letter" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize(
    "how", ["raised", "raised from an error", "raised from None", "returned", "by policy"]
)
async def test_a_rejected_message_is_an_error_too(
    dsn: str, client: AsyncClient, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async def handle(message: Any) -> Any:
        if how == "by policy":
            blame_the_payload(message)
        if how == "raised":
            raise Reject("no such customer")
        if how.startswith("raised from"):
            try:
                blame_the_payload(message)
            except ValueError as error:
                cause = error if how == "raised from an error" else None
                raise Reject("no such customer") from cause
        return Reject("no such customer")

    app = App()
    app.handler("orders", retry=RetryPolicy(reject=(ValueError,)))(handle)
    await client.create_queue("orders")
    id = await client.enqueue("orders", "x")
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 1, "it is settled")
    message = await client.message(id)
    first, _, rest = (message.last_error or "").partition("\n")
    assert first == ("ValueError: cannot read 'x'" if how == "by policy" else "no such customer")
    assert ("blame_the_payload" in rest) == (how in ("raised from an error", "by policy"))
    [record] = dead_letter_records(caplog)
    assert f"message {id} becomes a dead letter" in record.getMessage()


async def test_a_failure_that_is_tried_again_is_a_warning_and_leaves_one_line(
    dsn: str, client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    app.handler("orders")(blame_the_payload)
    await client.create_queue("orders")
    id = await client.enqueue("orders", "x")
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 1, "it is settled")
    assert (await client.message(id)).last_error == "ValueError: cannot read 'x'"
    assert dead_letter_records(caplog) == []
    assert "handler failed" in caplog.text


async def test_a_long_traceback_keeps_its_end_within_the_limit(
    dsn: str, client: AsyncClient
) -> None:
    def dig(depth: int) -> None:
        if depth == 0:
            raise ValueError("the bottom " + "x" * 2 * MAX_ERROR)
        [dig(depth - 1) for _ in range(1)]

    app = App()
    app.handler("orders")(lambda message: dig(300))
    await client.create_queue("orders", max_attempts=1)
    id = await client.enqueue("orders", "x")
    async with Worker(app, dsn) as worker:
        await until(lambda: worker.settled == 1, "it is settled")
    error = (await client.message(id)).last_error or ""
    assert error.startswith("ValueError: the bottom xxx")
    assert error.endswith("xxx\n")
    assert len(error) == MAX_ERROR


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_cut_off_at_the_end_of_the_grace_period_is_logged(
    dsn: str,
    client: AsyncClient,
    caplog: pytest.LogCaptureFixture,
    attempts: int,
    is_async: bool,
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait(message: Any) -> None:
        begun.set()
        await over.wait()

    def wait_in_a_thread(message: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(over.wait(), loop).result()

    app = App()
    app.handler("orders")(wait if is_async else wait_in_a_thread)
    await client.create_queue("orders", max_attempts=attempts)
    id = await client.enqueue("orders", "x")
    async with Worker(app, dsn, grace=1):
        await begun.wait()
    over.set()
    [record] = [r for r in caplog.records if "cancelled at the end of the grace" in r.getMessage()]
    assert record.levelno == (logging.ERROR if attempts == 1 else logging.WARNING)
    assert record.__dict__["id"] == id
