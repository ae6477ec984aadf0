"""Schedules that the code declares."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from penstock import App, AsyncClient, Worker
from penstock.errors import ConfigurationError, InvalidValueError

from .conftest import until

Connect = Callable[..., psycopg.Connection[Any]]


def declare(dsn: str, application: str = "reports", **options: Any) -> App:
    app = App(dsn, name=application)

    @app.schedule(**{"args": [3], **options})
    @app.task(queue="work", name="Reports:refresh", priority=2, ttl=60)
    async def refresh(n: int) -> None: ...

    return app


async def test_a_worker_brings_schedules_and_changes_them(dsn: str, client: AsyncClient) -> None:
    async with Worker(declare(dsn, cron="0 8 * * mon", timezone="Europe/Vienna"), dsn):
        pass
    [made] = await client.schedules()
    assert (made.name, made.queue, made.cron) == ("reports-refresh", "work", "0 8 * * mon")
    assert (made.time_zone, made.payload) == ("Europe/Vienna", {"n": 3})
    assert (made.priority, made.ttl_seconds) == (2, 60)
    assert made.headers["penstock-task"] == "Reports:refresh"
    await client.pause_schedule("reports-refresh")
    # The same code changes nothing, and an operator's pause stays.
    async with Worker(declare(dsn, cron="0 8 * * mon", timezone="Europe/Vienna"), dsn):
        assert (await client.schedule("reports-refresh")).updated_at > made.updated_at
        paused = await client.schedule("reports-refresh")
    assert paused.paused
    async with Worker(declare(dsn, every=timedelta(minutes=5), missed="skip"), dsn):
        pass
    changed = await client.schedule("reports-refresh")
    assert (changed.cron, changed.time_zone, changed.missed) == ("@every 300s", "UTC", "skip")
    assert changed.paused
    again = await declare(dsn, every=300, missed="skip").schedules.bring(client.run)
    assert again == []


async def test_a_task_runs_more_than_once_a_minute(dsn: str, client: AsyncClient) -> None:
    app = App(dsn)
    ran: list[datetime] = []

    @app.schedule(every=timedelta(seconds=1))
    @app.task(queue="work")
    async def tick() -> None:
        ran.append(datetime.now(UTC))

    async with Worker(app, dsn):
        await until(lambda: len(ran) >= 3, "three fires")


async def test_schedules_that_the_code_lost_are_dropped_on_request(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_schedule("by-hand", "work", "@daily")
    await declare(dsn, cron="@daily").schedules.bring(client.run)
    app = declare(dsn, cron="@daily", name="renamed")
    await app.schedules.bring(client.run)
    assert len(await client.schedules()) == 3
    assert await app.schedules.drop_others(client.run) == ["reports-refresh"]
    assert [each.name for each in await client.schedules()] == ["by-hand", "renamed"]


async def test_an_application_drops_no_schedules_of_others(dsn: str, client: AsyncClient) -> None:
    await declare(dsn, cron="@daily").schedules.bring(client.run)
    other = declare(dsn, "billing", cron="@daily", name="invoices")
    await other.schedules.bring(client.run)
    assert await other.schedules.drop_others(client.run) == []
    assert await App(dsn, name="billing").schedules.drop_others(client.run) == ["invoices"]
    assert [each.name for each in await client.schedules()] == ["reports-refresh"]


def test_an_application_is_named_after_its_module(tmp_path: Path) -> None:
    assert App().name == __name__
    (tmp_path / "jobs.py").write_text("import penstock\nprint(penstock.App().name)\n", "utf-8")
    for arguments in (["jobs.py"], ["-m", "jobs"], ["-c", "import jobs"]):
        command = [sys.executable, *arguments]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert said.stdout == "jobs\n"


async def test_a_worker_that_may_not_make_schedules_says_so_and_works(
    dsn: str, client: AsyncClient, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    db = connect()
    db.execute("create role schedule_test_consumer login in role penstock_consumer")
    try:
        async with Worker(
            declare(dsn, cron="@daily"), make_conninfo(dsn, user="schedule_test_consumer")
        ):
            pass
    finally:
        db.execute("drop role schedule_test_consumer")
    assert "penstock schedule sync" in caplog.text
    assert await client.schedules() == []


def test_wrong_declarations_are_refused(dsn: str) -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"cron": "@daily", "every": 3},
        {"every": 0.5},
        {"every": 0},
        {"cron": 5},
        {"every": 3, "args": "daily"},
        {"every": 3, "kwargs": ["daily"]},
    ]
    for options in wrong:
        with pytest.raises(InvalidValueError):
            declare(dsn, **options)
    app = declare(dsn, cron="@daily")
    with pytest.raises(ConfigurationError, match="declared twice"):
        app.schedule(cron="@daily")(app.tasks["Reports:refresh"])
    with pytest.raises(InvalidValueError, match=r"above @app\.task"):
        app.schedule(cron="@daily")(lambda: None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cron": "daily"}, "'reports-refresh' cannot be stored: cron is 'daily'"),
        ({"every": 3, "timezone": "Mars"}, "time_zone is 'Mars'"),
        ({"every": 3, "args": [1, 2, 3]}, "too many positional arguments"),
    ],
)
async def test_a_worker_that_cannot_store_a_schedule_names_it(
    options: dict[str, Any], said: str, dsn: str, client: AsyncClient
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await Worker(declare(dsn, **options), dsn).start()


@pytest.mark.parametrize(
    ("rule", "after", "fires"),
    [
        ("@every 30s", "12:00:00", ["12:00:30", "12:01:00", "12:01:30"]),
        ("@EVERY 1s", "12:00:00.5", ["12:00:01", "12:00:02", "12:00:03"]),
        ("@every 90m", "12:00:00", ["13:30:00", "15:00:00", "16:30:00"]),
        (" @every  12 h ", "12:00:00", ["00:00:00", "12:00:00", "00:00:00"]),
    ],
)
def test_periods_are_counted_from_1970(
    rule: str, after: str, fires: list[str], connect: Connect
) -> None:
    found = connect().execute(
        "select to_char(f at time zone 'UTC', 'HH24:MI:SS')"
        " from penstock.next_fires(%s, 'Europe/Vienna', 3, %s) f",
        [rule, f"2026-01-01 {after}Z"],
    )
    assert [row[0] for row in found] == fires


@pytest.mark.parametrize("rule", ["@every", "@every 0s", "@every 30", "@every 1y", "@every 366d"])
def test_wrong_periods_are_refused(rule: str, connect: Connect) -> None:
    with pytest.raises(psycopg.Error, match="@every and a period from 1s to 365d"):
        connect().execute("select penstock.next_fires(%s)", [rule])
