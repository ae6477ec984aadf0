"""The worker of a Django project, and the connections of its handlers."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection, connections
from tests.chaos.server import Server
from tests.django import scheduled
from tests.django.conftest import LIMIT, PROJECT, close_connections, point_at

from orders.models import Order
from orders.tasks import pack, send_receipt
from penstock import Client, Worker, current
from penstock.cli.worker import load
from penstock.django import App
from penstock.worker import Delivery
from penstock.worker import app as base
from penstock.worker.handlers import Call

NO_PAUSE = {"kind": "constant", "base_seconds": 0.05}


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A PostgreSQL that can be restarted, with the tables of the project."""
    with tempfile.TemporaryDirectory(prefix="penstock-django-") as place:
        server = Server(Path(place))
        point_at(server.dsn())
        call_command("migrate", verbosity=0)
        yield server
        close_connections()
        server.stop()


async def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + LIMIT
    while not (found := await asyncio.to_thread(condition)):
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        await asyncio.sleep(0.02)
    return found


def handlers() -> App:
    """Handlers that write a row, in threads and on the event loop."""
    app = App()

    @app.handler("emails", concurrency=4)
    def in_thread(message: Delivery) -> None:
        Order.objects.create(email="thread", item=str(message.payload), total=0)

    @app.handler("orders", concurrency=4)
    async def on_loop(message: Delivery) -> None:
        await Order.objects.acreate(email="loop", item=str(message.payload), total=0)

    return app


def enqueue(client: Client, numbers: range) -> list[int]:
    both = [(name, number) for number in numbers for name in ("emails", "orders")]
    return [client.enqueue(name, number) for name, number in both]


def all_done(client: Client, ids: list[int]) -> bool:
    return all(client.message(id).state == "done" for id in ids)


async def check_rows(numbers: range) -> None:
    await sync_to_async(connections.close_all)()
    found = await sync_to_async(lambda: set(Order.objects.values_list("email", "item")))()
    assert found == {(way, str(number)) for way in ("thread", "loop") for number in numbers}


async def test_schedules_are_synced_by_the_worker_and_by_a_command(
    project: str, queue: Client
) -> None:
    def sync(*arguments: str) -> str:
        said = io.StringIO()
        call_command(
            "penstock_schedules", *arguments, app="tests.django.scheduled.app", stdout=said
        )
        connections.close_all()  # those of this thread
        return said.getvalue()

    queue.create_schedule("by-hand", "orders", "@daily")
    other = base.App(project, name="other")
    other.schedule(cron="@daily", name="elsewhere")(other.task(queue="orders")(leave_a_mark))
    async with Worker(other, project), Worker(scheduled.app, project):
        pass
    assert scheduled.app.name == "shop"  # the settings are in shop.settings
    assert [each.name for each in queue.schedules()] == ["by-hand", "elsewhere", "mark"]
    assert await asyncio.to_thread(sync) == "all schedules were up to date\n"
    queue.drop_schedule("mark")
    assert await asyncio.to_thread(sync) == "created or changed schedule mark\n"
    before = App()
    before.schedule(cron="@daily", name="old")(before.task(queue="orders")(leave_a_mark))
    async with Worker(before, project):
        pass
    assert await asyncio.to_thread(sync, "--drop-others") == "dropped schedule old\n"
    assert [each.name for each in queue.schedules()] == ["by-hand", "elsewhere", "mark"]
    with pytest.raises(click.BadParameter, match="penstock_schedules"):
        load("penstock.django:app")


def leave_a_mark() -> None: ...


# Those of Django have no name.
TERMINATE = """select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name = ''"""


async def test_handlers_need_no_second_attempt_after_their_connections_were_cut(
    project: str, queue: Client
) -> None:
    async with Worker(handlers(), project):
        ids = await asyncio.to_thread(enqueue, queue, range(20))
        await until(lambda: all_done(queue, ids), "the connections of all threads are open")
        with psycopg.connect(project, autocommit=True) as admin:
            await until(lambda: admin.execute(TERMINATE).fetchone() == (0,), "all are cut")
        after = await asyncio.to_thread(enqueue, queue, range(20, 40))
        await until(lambda: all_done(queue, after), "messages after it are done")
        assert [queue.message(id).attempt for id in after] == [1] * len(after)
    await check_rows(range(40))


async def test_middleware_that_uses_the_orm_needs_no_second_attempt_either(
    project: str, queue: Client
) -> None:
    app = handlers()

    @app.middleware
    async def count(delivery: Delivery, call_next: Call) -> Any:
        await Order.objects.acount()
        return await call_next(delivery)

    async with Worker(app, project):
        ids = await asyncio.to_thread(enqueue, queue, range(4))
        await until(lambda: all_done(queue, ids), "the connections of all threads are open")
        with psycopg.connect(project, autocommit=True) as admin:
            await until(lambda: admin.execute(TERMINATE).fetchone() == (0,), "all are cut")
        after = await asyncio.to_thread(enqueue, queue, range(4, 8))
        await until(lambda: all_done(queue, after), "messages after it are done")
        assert [queue.message(id).attempt for id in after] == [1] * len(after)
    await check_rows(range(8))


@pytest.mark.slow
async def test_a_restart_of_the_database_loses_nothing(own_server: Server) -> None:
    dsn = own_server.dsn()
    client = await asyncio.to_thread(Client, dsn)
    settings = {"max_attempts": 50, "backoff": NO_PAUSE}
    for name in ("emails", "orders"):
        await asyncio.to_thread(client.set_queue, name, lease_seconds=5, **settings)
    async with Worker(handlers(), dsn):
        ids = await asyncio.to_thread(enqueue, client, range(20))
        await until(lambda: all_done(client, ids), "the connections of all threads are open")
        await asyncio.to_thread(own_server.restart, "fast")
        after = await asyncio.to_thread(enqueue, client, range(20, 40))
        await until(lambda: all_done(client, after), "messages after the restart are done")
        assert [client.message(id).attempt for id in after] == [1] * len(after)

        during = await asyncio.to_thread(enqueue, client, range(40, 540))
        await asyncio.to_thread(own_server.restart, "immediate")
        await until(lambda: all_done(client, during), "messages under way are done")
        dead = [(await asyncio.to_thread(client.stats, name)).dead for name in ("emails", "orders")]
        assert dead == [0, 0]
    await check_rows(range(540))
    await asyncio.to_thread(client.close)


async def test_connections_are_closed_after_each_handler_unless_they_are_to_be_kept(
    project: str, queue: Client
) -> None:
    point_at(project, CONN_MAX_AGE=0)
    used: list[Any] = []
    app = App()

    @app.handler("emails", concurrency=1)
    def run(message: Delivery) -> None:
        connection.ensure_connection()
        used.append(connection.connection)

    async with Worker(app, project):
        ids = [await asyncio.to_thread(queue.enqueue, "emails", n) for n in range(2)]
        await until(lambda: all(queue.message(id).state == "done" for id in ids), "done")
    assert [each.closed for each in used] == [True, True]


async def test_a_handler_enqueues_in_its_own_transaction(project: str, queue: Client) -> None:
    from django.db import transaction

    app = App()

    @app.task(queue="emails", retry=1)
    def fail() -> None:
        with transaction.atomic():
            pack.enqueue_sync(1)
            raise ZeroDivisionError

    @app.task(queue="emails", retry=1, keep_result=True)
    def succeed() -> int:
        with transaction.atomic():
            return pack.enqueue_sync(2).id

    async with Worker(app, project):
        failed = await fail.enqueue()
        handle = await succeed.enqueue()
        id = await handle.result(timeout=LIMIT)
        await until(lambda: queue.message(failed.id).state == "dead", "it failed")
    assert [lease.id for lease in await asyncio.to_thread(queue.claim, "orders", 5)] == [id]
    await app.close()


async def test_a_task_acks_in_its_own_transaction(project: str, queue: Client) -> None:
    from django.db import transaction

    app = App()

    @app.task(queue="emails", retry=2, keep_result=True)
    def store(item: str) -> str:
        attempt = current().attempt
        with transaction.atomic():
            Order.objects.create(email=f"attempt {attempt}", item=item, total=0)
            current().ack_with_sync(connection.connection, result=item)
            if attempt == 1:
                raise ZeroDivisionError
        return "not stored"

    await asyncio.to_thread(queue.set_queue, "emails", backoff=NO_PAUSE)
    async with Worker(app, project):
        handle = await store.enqueue("lamp")
        assert await handle.result(timeout=LIMIT) == "lamp"
    orders = await sync_to_async(lambda: [order.email for order in Order.objects.all()])()
    assert orders == ["attempt 2"]
    await app.close()


def start(dsn: str, *arguments: str, directory: Path = PROJECT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "penstock_worker", *arguments],
        cwd=directory,
        env={**os.environ, "DATABASE_URL": dsn, "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines up to one with the text."""
    alarm = threading.Timer(LIMIT, process.kill)
    alarm.start()
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if text in line:
            alarm.cancel()
            return lines
    pytest.fail(f"{text!r} is not in: {''.join(lines)}")


def test_the_command_runs_tasks_and_drains_on_sigterm(project: str, queue: Client) -> None:
    order = Order.objects.create(email="ada@example.com", item="lamp", total=1)
    process = start(project, "--name", "shop", "--metrics", "0")
    try:
        lines = read_until(process, "serves")
        assert "metrics are at http://127.0.0.1:" in "".join(lines)
        assert all(name in lines[-1] for name in ("emails", "orders", "default"))
        handle = send_receipt.enqueue_sync(order.pk, order.total)
        deadline = time.monotonic() + LIMIT
        while queue.message(handle.id).state != "done" or not _is_packed(order):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        read_until(process, "drains")
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.communicate()


def _is_packed(order: Order) -> bool:
    order.refresh_from_db()
    return order.packed_at is not None


@pytest.mark.slow
def test_the_command_starts_again_when_a_file_changes(project: str, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "project"
    shutil.copytree(PROJECT, copy)
    process = start(project, "--reload", "--queue", "emails", directory=copy)
    try:
        read_until(process, "serves emails")
        tasks = copy / "orders" / "tasks.py"
        tasks.write_text(tasks.read_text("utf-8") + "\nCHANGED = True\n", "utf-8")
        lines = read_until(process, "serves emails")
        assert any("drains" in line for line in lines)
        assert any("tasks.py changed" in line for line in lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--app", "orders.tasks.app2"], "does not define"),
        (["--app", "penstock.worker.App"], "not a penstock.django.App"),
        (["--queue", "absent"], "no handler for queue 'absent'"),
        (["--metrics", "port"], "not an address"),
    ],
)
def test_a_wrong_argument_is_a_clear_error(project: str, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("penstock_worker", *arguments)


def test_a_queue_that_migrate_has_not_created_is_named(project: str) -> None:
    with psycopg.connect(project) as database:
        database.execute("select penstock.drop_queue('emails')")
    with pytest.raises(CommandError, match=r"queue 'emails' does not exist.*manage\.py migrate"):
        call_command("penstock_worker", "--queue", "emails")
