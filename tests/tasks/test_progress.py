"""Progress and logs of running tasks."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

import psycopg

from penstock import App, AsyncClient, Message, Worker, current
from penstock.commands.write.progress import Report, get_progress, report_progress
from penstock.model.progress import Progress
from penstock.worker import TaskLogHandler

from .conftest import until

Connect = Callable[..., psycopg.Connection[Any]]


async def test_progress_and_logs_are_visible_while_a_task_runs(
    dsn: str, client: AsyncClient, app: App
) -> None:
    may_end = asyncio.Event()
    logger = logging.getLogger("tests.progress")
    logger.addHandler(TaskLogHandler())

    @app.task(queue="work")
    async def pages() -> None:
        current().progress(0.4, "page 40 of 100")
        current().log("a line")
        logger.warning("a record of %s", "logging")
        await may_end.wait()

    @app.task(queue="work")
    def threads() -> None:
        current().progress(1)

    async def reported(id: int) -> Progress | None:
        return await client.run(get_progress(id))

    async with Worker(app, dsn):
        handle = await pages.enqueue()
        found = await until(lambda: reported(handle.id), "the report")
        assert (found.attempt, found.note) == (1, "page 40 of 100")
        assert math.isclose(found.fraction, 0.4, abs_tol=1e-6)
        assert found.log == ("a line", "a record of logging")
        may_end.set()
        other = await threads.enqueue()
        assert (await until(lambda: reported(other.id), "the other report")).fraction == 1
    logger.warning("outside of a task")


async def test_a_task_that_reports_nothing_writes_nothing(
    dsn: str, client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    async def quiet() -> None: ...

    @app.task(queue="work", retry=1)
    async def wrong() -> None:
        current().progress(math.nan)

    id = (await quiet.enqueue()).id
    refused = (await wrong.enqueue()).id
    async with Worker(app, dsn):
        dead = await until(lambda: dead_letter(client, refused), "the dead letter")
    assert "a number from 0 to 1" in dead.last_error
    assert await client.run(get_progress(id)) is None


async def dead_letter(client: AsyncClient, id: int) -> Message | None:
    found = await client.message(id)
    return found if found.state == "dead" else None


async def test_reports_are_bounded(client: AsyncClient) -> None:
    lines = [f"line {n} " + "x" * 1000 for n in range(150)]
    await client.run(report_progress([Report(7, 1, 5.0, "n" * 1000, lines)]))
    found = await client.run(get_progress(7))
    assert found is not None
    assert (found.fraction, len(found.note or ""), len(found.log)) == (1.0, 500, 100)
    assert found.log[0].startswith("line 50 x")
    assert {len(line) for line in found.log} == {500}
    await client.run(report_progress([Report(7, 1, None, None, ["one more"])]))
    found = await client.run(get_progress(7))
    assert found is not None
    assert (len(found.log), found.log[-1], found.fraction) == (100, "one more", 1.0)
    # Another attempt begins again.
    await client.run(report_progress([Report(7, 2, None, "again", [])]))
    found = await client.run(get_progress(7))
    assert found is not None
    assert (found.attempt, found.fraction, found.note, found.log) == (2, None, "again", ())


async def test_reports_are_deleted_after_a_day(client: AsyncClient, connect: Connect) -> None:
    await client.run(report_progress([Report(1, 1, 0.5), Report(2, 1, 0.5)]))
    db = connect()
    db.execute("update penstock.progress set updated_at = now() - interval '25 hours' where id = 1")
    db.execute("select penstock.maintain(true)")
    assert await client.run(get_progress(1)) is None
    assert await client.run(get_progress(2)) is not None
