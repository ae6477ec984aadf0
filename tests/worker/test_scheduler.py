"""Workers fire schedules, each fire once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from penstock import AsyncClient
from penstock.db.reconnecting import ReconnectingConnection
from penstock.worker import App, Delivery, Worker
from penstock.worker.scheduler import LOOK_SECONDS, Scheduler

from .conftest import until

Connect = Callable[..., Any]


def put_back(connect: Connect, minutes: int) -> None:
    connect().execute(
        "update penstock.schedule"
        " set next_fire_at = date_trunc('minute', now()) - make_interval(mins => %s)",
        [minutes],
    )


async def test_workers_fire_what_is_due_once_and_handle_it(
    dsn: str, client: AsyncClient, connect: Connect
) -> None:
    app = App()
    came: list[str] = []

    @app.handler("reports")
    async def report(message: Delivery) -> None:
        came.append(message.headers["penstock-fire-at"])

    await client.create_queue("reports")
    await client.create_schedule("often", "reports", "* * * * *", missed="all")
    put_back(connect, minutes=30)
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(Worker(app, dsn))
        await until(lambda: len(came) >= 31, "every fire was handled")
    assert len(came) == len(set(came))


async def test_a_scheduler_looks_again_when_the_next_one_is_due(
    dsn: str, client: AsyncClient, connect: Connect
) -> None:
    scheduler = Scheduler(ReconnectingConnection(dsn))
    assert await scheduler.run_once() == LOOK_SECONDS
    await client.create_queue("reports")
    await client.create_schedule("yearly", "reports", "@yearly")
    assert await scheduler.run_once() == LOOK_SECONDS
    connect().execute("update penstock.schedule set next_fire_at = now() + interval '9 seconds'")
    assert 0 < await scheduler.run_once() <= 9
    put_back(connect, minutes=1)
    await scheduler.run_once()
    assert (await client.stats("reports")).ready == 1
    await scheduler._connection.close()


async def test_a_scheduler_goes_on_after_the_database_was_away(
    dsn: str, client: AsyncClient, connect: Connect
) -> None:
    connection = ReconnectingConnection(dsn, name="to be cut")
    scheduler = Scheduler(connection)
    await scheduler.run_once()
    connect().execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'to be cut'"
    )
    await client.create_queue("reports")
    await client.create_schedule("often", "reports", "* * * * *")
    put_back(connect, minutes=1)
    running = asyncio.create_task(scheduler.run())

    async def fired() -> int:
        return (await client.stats("reports")).ready

    await until(fired, "the schedule was fired")
    running.cancel()
    await connection.close()
