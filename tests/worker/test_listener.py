"""Wake-ups: that they come, that they are few, and what happens where they do not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import psycopg
import pytest

from penstock import AsyncClient
from penstock.commands.command import Command
from penstock.commands.write import workers
from penstock.db.listener import Listener
from penstock.db.reconnecting import ReconnectingConnection
from penstock.errors import InvalidValueError, QueueNotFoundError

from .conftest import until

Connect = Callable[..., psycopg.Connection[Any]]
LISTENERS = """select pid from pg_stat_activity
    where datname = current_database() and application_name = 'penstock listener'"""


@asynccontextmanager
async def listening(dsn: str, client: AsyncClient, **options: Any) -> AsyncIterator[Listener]:
    listener = Listener(dsn, client.run, **options)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def attended(listener: Listener, queue: str) -> Any:
    """A subscription that enqueuers know of."""
    subscription = listener.subscribe(queue)
    await until(lambda: listener.healthy, "notifications arrive")
    assert await subscription.wait(30), "the first wait says: look again"
    return subscription


async def test_who_waits_is_woken_by_an_enqueue(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("emails")
    async with listening(dsn, client) as listener:
        with await attended(listener, "emails") as emails:
            waiting_for = asyncio.create_task(emails.wait(30))
            await client.enqueue("emails", 1)
            assert await waiting_for
            assert len(await client.claim("emails")) == 1


async def test_who_waits_is_woken_when_a_scheduled_message_is_due(
    dsn: str, client: AsyncClient
) -> None:
    await client.create_queue("emails")
    async with listening(dsn, client) as listener:
        with await attended(listener, "emails") as emails:
            await client.enqueue("emails", 1, delay=1)

            async def claimed() -> bool:
                assert await emails.wait(30), "nothing woke it"
                return bool(await client.claim("emails"))

            await until(claimed, "it was due")


async def test_one_connection_listens_for_all_queues(dsn: str, client: AsyncClient) -> None:
    names = [f"queue-{number}" for number in range(20)] + ["q" * 128]
    for name in names:
        await client.create_queue(name)
    async with listening(dsn, client) as listener:
        subscriptions = [await attended(listener, name) for name in names]
        for name, subscription in zip(names, subscriptions, strict=True):
            woken = asyncio.create_task(subscription.wait(30))
            await client.enqueue(name, 1)
            assert await woken
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            cursor = await connection.execute(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name = 'penstock listener'"
            )
            assert await cursor.fetchone() == (1,)


async def test_it_goes_on_after_its_connection_was_cut(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("emails")
    async with listening(dsn, client) as listener:
        emails = await attended(listener, "emails")
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'penstock listener'"
            )
        await until(lambda: not listener.healthy, "it has noticed")
        await until(lambda: listener.healthy, "it listens again")
        while await emails.wait(0.5):
            pass  # what its return woke it for
        woken = asyncio.create_task(emails.wait(30))
        await client.enqueue("emails", 1)
        assert await woken


async def test_a_cut_while_it_checks_its_line_harms_nobody_else(
    dsn: str, client: AsyncClient, connect: Connect
) -> None:
    """The number of the closed socket goes to the next connection, which is not the listener's."""
    connection = ReconnectingConnection(dsn)
    db = connect()
    cut: list[int] = []

    async def run(command: Command[Any]) -> Any:
        if cut:
            return await client.run(command)
        [(pid,)] = db.execute(LISTENERS).fetchall()
        cut.append(pid)
        db.execute("select pg_terminate_backend(%s, 30000)", [pid])
        await asyncio.sleep(0.1)  # it hears of that
        return await connection.run(command)

    listener = Listener(dsn, run)
    await listener.start()
    try:
        await until(lambda: listener.healthy, "it listens after all")
        async with asyncio.timeout(30):
            await connection.run(workers.notify("anybody", "hello"))
        assert cut
    finally:
        await listener.stop()
        await connection.close()


async def test_a_database_that_is_slow_is_not_taken_for_a_pooler(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.db.listener.ANSWER_SECONDS", 0.1)

    async def run(command: Command[Any]) -> Any:
        await asyncio.sleep(600)

    listener = Listener(dsn, run)
    await listener.start()
    try:
        await until(lambda: "the database does not answer" in caplog.text, "it says so")
        assert not listener._polls
    finally:
        await listener.stop()


async def test_where_notifications_do_not_arrive_it_says_so_and_waits_are_short(
    dsn: str, client: AsyncClient, make_database: Callable[[str], str], template: str
) -> None:
    await client.create_queue("emails")
    # What a transaction-mode pooler does to LISTEN: the statements go elsewhere.
    async with (
        AsyncClient(make_database(template)) as elsewhere,
        listening(dsn, elsewhere) as listener,
    ):
        emails = listener.subscribe("emails")
        await until(lambda: listener._polls, "it has noticed")
        assert not listener.healthy
        assert await emails.wait(600) in (True, False)  # soon, or this would time out


async def test_switched_off_it_opens_no_connection(dsn: str, client: AsyncClient) -> None:
    await client.create_queue("emails")
    async with listening(dsn, client, enabled=False) as listener:
        assert not await listener.subscribe("emails").wait(600)
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            cursor = await connection.execute(
                "select count(*) from pg_stat_activity where application_name = 'penstock listener'"
                " and datname = current_database()"
            )
            assert await cursor.fetchone() == (0,)


# What enqueuers do


def notifications(connection: psycopg.Connection[Any]) -> list[str]:
    """What has come so far: a statement makes the server send the rest."""
    connection.execute("select 1")
    return [note.payload for note in connection.notifies(timeout=0.2)]


@pytest.fixture
def ear(connect: Connect) -> psycopg.Connection[Any]:
    """A connection that listens to a queue that no consumer attends to yet."""
    connection = connect()
    connection.execute("select penstock.create_queue('emails')")
    connection.execute('listen "penstock:emails"')
    return connection


def test_nobody_is_notified_of_a_queue_that_nobody_attends_to(
    ear: psycopg.Connection[Any], connect: Connect
) -> None:
    producer = connect()
    producer.execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == []
    ear.execute("select penstock.attend('emails')")
    producer.execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == ["ready"]


def test_a_burst_brings_few_notifications(ear: psycopg.Connection[Any], connect: Connect) -> None:
    producer = connect()
    ear.execute("select penstock.attend('emails')")
    begun = monotonic()
    for _ in range(300):
        producer.execute("select penstock.enqueue('emails', '1')")
    hundredths = (monotonic() - begun) * 100
    assert 1 <= len(notifications(ear)) <= hundredths + 1


def test_an_enqueue_that_is_rolled_back_notifies_nobody(
    ear: psycopg.Connection[Any], connect: Connect
) -> None:
    ear.execute("select penstock.attend('emails')")
    producer = connect(autocommit=False)
    producer.execute("select penstock.enqueue('emails', '1')")
    producer.rollback()
    assert notifications(ear) == []


@pytest.mark.parametrize(
    "statement",
    [
        "select penstock.enqueue('emails', '1')",
        "select penstock.enqueue('emails', '1', key => 'k')",
        "select penstock.enqueue('emails', '1', group_key => 'g')",
        "select penstock.enqueue('emails', '1', priority => 9)",
        "select penstock.enqueue('emails', payload_bytes => 'x')",
        "select penstock.enqueue_many('emails', array['1', '2']::jsonb[])",
        "select penstock.enqueue_many('emails', array['1']::jsonb[], keys => array['k'])",
        "select penstock.redrive('emails')",
        "select penstock.resume('emails')",
    ],
)
def test_every_way_in_wakes(statement: str, ear: psycopg.Connection[Any], connect: Connect) -> None:
    producer = connect()
    producer.execute("select penstock.enqueue('emails', '1')")
    producer.execute("select penstock.reject(id, token) from penstock.claim('emails')")
    ear.execute("select penstock.attend('emails')")
    producer.execute(statement)
    assert notifications(ear) == ["ready"]


@pytest.mark.parametrize(("delay", "heard"), [("5 seconds", ["scheduled"]), ("1 minute", [])])
def test_a_delayed_message_wakes_only_if_it_is_due_soon(
    delay: str, heard: list[str], ear: psycopg.Connection[Any], connect: Connect
) -> None:
    ear.execute("select penstock.attend('emails')")
    connect().execute("select penstock.enqueue('emails', '1', delay => %s::interval)", [delay])
    assert notifications(ear) == heard
    row = ear.execute("select penstock.attend('emails')").fetchone()
    assert row is not None
    assert 0 < row[0] <= 60


def test_wake_ups_are_switched_off_by_a_setting(
    ear: psycopg.Connection[Any], connect: Connect
) -> None:
    ear.execute("select penstock.attend('emails')")
    producer = connect()
    producer.execute("set penstock.wake_ups = off")
    producer.execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == []


def test_when_nobody_attends_any_more_enqueuers_stop(
    ear: psycopg.Connection[Any], connect: Connect
) -> None:
    ear.execute("select penstock.attend('emails', 1)")
    ear.execute("select pg_sleep(1.1)")
    producer = connect()
    producer.execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == []
    ear.execute("select penstock.attend('emails')")
    producer.execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == ["ready"]


def test_after_the_clock_was_put_back_attending_mends_the_registers(
    ear: psycopg.Connection[Any], connect: Connect
) -> None:
    ear.execute("select penstock.attend('emails')")
    ear.execute(
        """select setval(register, (date_part('epoch', now() + interval '2 hours') * 1e6)::bigint)
        from penstock.queue, unnest(array[notify_register, waiting_register]) register"""
    )
    ear.execute("select penstock.attend('emails')")
    connect().execute("select penstock.enqueue('emails', '1')")
    assert notifications(ear) == ["ready"]


def test_the_registers_go_with_their_queue(ear: psycopg.Connection[Any], connect: Connect) -> None:
    def sequences() -> Any:
        query = "select count(*) from pg_sequences where schemaname = 'penstock'"
        return ear.execute(query).fetchone()

    before = sequences()
    ear.execute("select penstock.create_queue('other')")
    ear.execute("select penstock.attend('other')")
    ear.execute("select penstock.drop_queue('other')")
    assert sequences() == before


def test_bad_input_is_refused(ear: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match="1 to 3600"):
        ear.execute("select penstock.attend('emails', 0)")
    with pytest.raises(psycopg.Error, match="does not exist"):
        ear.execute("select penstock.attend('emials')")


async def test_a_queue_that_does_not_exist_is_left_out(client: AsyncClient) -> None:
    await client.create_queue("emails")
    with pytest.raises(InvalidValueError, match="running or draining"):
        await client.run(workers.beat("w", "asleep", datetime.now(UTC), {}))
    assert await client.run(workers.attend(["emails", "emials"], 5)) == {"emails": None}
    with pytest.raises(QueueNotFoundError):
        await client.claim("emials")
