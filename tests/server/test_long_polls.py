"""Consumers that wait for messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest

Db = psycopg.Connection[Any]


@pytest.fixture
async def consumer(web: Any, make_key: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {make_key('consumer', 'consume', 'enqueue')}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=web.url, headers=headers, timeout=60, verify=False, limits=limits
    ) as client:
        yield client


async def dequeue(client: httpx.AsyncClient, topic: str = "orders", **fields: Any) -> Any:
    answer = await client.post("/api/messages/dequeue", json={"topic": topic, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"]


async def waiting(web: Any, count: int) -> None:
    """Until so many consumers wait."""
    while web.server.context.long_polls.waiting < count:  # noqa: ASYNC110 - another thread's
        await asyncio.sleep(0.01)


async def test_it_answers_as_soon_as_there_is_a_message(
    consumer: httpx.AsyncClient, web: Any, db: Db
) -> None:
    db.execute("select penstock.create_queue('orders')")
    poll = asyncio.create_task(dequeue(consumer, wait_seconds=20))
    await waiting(web, 1)
    db.execute("select penstock.enqueue('orders', '{\"n\": 1}')")
    [message] = await poll
    assert message["json"] == {"n": 1}
    assert web.server.context.long_polls.waiting == 0


async def test_a_consumer_that_comes_back_is_still_subscribed(
    consumer: httpx.AsyncClient, web: Any, db: Db
) -> None:
    """A new subscription would miss the looks that follow the last wake-up."""
    subscriptions = web.server.context.long_polls._subscriptions
    await dequeue(consumer, wait_seconds=1)
    first = subscriptions["orders"]
    poll = asyncio.create_task(dequeue(consumer, wait_seconds=20))
    await waiting(web, 1)
    assert subscriptions["orders"] is first
    db.execute("select penstock.create_queue('orders', exist_ok => true)")
    db.execute("select penstock.enqueue('orders', '1')")
    assert len(await poll) == 1


async def test_few_subscriptions_outlive_their_consumers(
    consumer: httpx.AsyncClient, web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.api.long_polls.MAX_LINGERING", 2)
    for topic in "abcd":
        await dequeue(consumer, topic, wait_seconds=1)
    assert set(web.server.context.long_polls._subscriptions) == {"a", "b"}


async def test_messages_that_wait_are_handed_out_at_once(
    consumer: httpx.AsyncClient, web: Any
) -> None:
    await consumer.post("/api/messages", json={"topic": "orders", "messages": [{"json": 1}] * 5})
    assert len(await dequeue(consumer, wait_seconds=20, count=3)) == 3
    assert len(await dequeue(consumer, wait_seconds=20, count=3)) == 2


async def test_each_message_goes_to_one_of_them_in_the_order_they_came(
    consumer: httpx.AsyncClient, web: Any, db: Db
) -> None:
    polls = []
    for number in range(20):
        polls.append(asyncio.create_task(dequeue(consumer, wait_seconds=20)))
        await waiting(web, number + 1)
    await consumer.post(
        "/api/messages", json={"topic": "orders", "messages": [{"json": n} for n in range(12)]}
    )
    await asyncio.wait(polls[:12])
    found = [message["json"] for poll in polls[:12] for message in poll.result()]
    assert sorted(found) == list(range(12))
    assert not any(poll.done() for poll in polls[12:])
    await consumer.post(
        "/api/messages", json={"topic": "orders", "messages": [{"json": n} for n in range(8)]}
    )
    await asyncio.wait(polls)
    assert db.execute(
        "select count(*) from penstock.messages where state = 'leased'"
    ).fetchone() == (20,)


async def test_an_empty_answer_comes_when_the_time_is_over(consumer: httpx.AsyncClient) -> None:
    assert await dequeue(consumer, wait_seconds=1) == []
    assert await dequeue(consumer, "nowhere", wait_seconds=1) == []


async def test_who_is_strict_does_not_wait_for_a_topic_that_is_not_there(
    consumer: httpx.AsyncClient,
) -> None:
    answer = await consumer.post(
        "/api/messages/dequeue",
        json={"topic": "nowhere", "wait_seconds": 20},
        headers={"Prefer": "handling=strict"},
    )
    assert answer.status_code == 404


async def test_a_lease_that_runs_out_wakes_who_waits(consumer: httpx.AsyncClient) -> None:
    await consumer.post("/api/messages", json={"topic": "orders", "json": 1})
    await dequeue(consumer, visibility_timeout_seconds=1)
    [again] = await dequeue(consumer, wait_seconds=20)
    assert again["retry_count"] == 1


async def test_a_message_for_who_hung_up_goes_to_another(
    consumer: httpx.AsyncClient, web: Any, db: Db
) -> None:
    db.execute("select penstock.create_queue('orders')")
    gone = asyncio.create_task(dequeue(consumer, wait_seconds=20))
    await waiting(web, 1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    while web.server.context.long_polls.waiting:  # noqa: ASYNC110 - another thread's
        await asyncio.sleep(0.01)
    db.execute("select penstock.enqueue('orders', '1')")
    [message] = await dequeue(consumer)
    assert message["retry_count"] == 0


async def test_hundreds_wait_on_one_connection_and_few_queries(
    consumer: httpx.AsyncClient, web: Any, db: Db
) -> None:
    polls = [
        asyncio.create_task(dequeue(consumer, f"t{n % 10}", wait_seconds=20)) for n in range(150)
    ]
    await waiting(web, 150)
    listening = (
        "select count(*) from pg_stat_activity"
        " where application_name = 'penstock listener' and datname = current_database()"
    )
    assert db.execute(listening).fetchone() == (1,)
    while not web.server.context.listener.healthy:  # noqa: ASYNC110 - another thread's
        await asyncio.sleep(0.01)
    calls = 0
    run = web.server.context.database.run

    async def counted(*args: Any) -> Any:
        nonlocal calls
        # The server has other work, too, such as checks of services.
        calls += "waiting consumers" in args[0].sql
        return await run(*args)

    web.server.context.long_polls._database.run = counted  # type: ignore[method-assign]
    begun = time.monotonic()
    await asyncio.sleep(4)
    # Ten topics, many consumers: a look at all of them every second or so.
    assert calls <= 2 + (time.monotonic() - begun)
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_a_server_that_stops_answers_who_waits(consumer: httpx.AsyncClient, web: Any) -> None:
    polls = [asyncio.create_task(dequeue(consumer, wait_seconds=20)) for _ in range(10)]
    await waiting(web, 10)
    await asyncio.to_thread(web.stop)
    assert [await poll for poll in polls] == [[]] * 10


async def test_a_message_of_a_long_transaction_is_handed_out_though_floors_have_passed_it(
    consumer: httpx.AsyncClient, web: Any, db: Db, dsn: str
) -> None:
    """By the look after the wake-up of its commit: the safety net finds nothing."""
    db.execute("select penstock.create_queue('orders', '{\"keep_history\": 0}')")
    floor = "select pg_sequence_last_value(floors[1]) from penstock.queue where name = 'orders'"
    with psycopg.connect(dsn) as block:
        late = _value(block, "select penstock.enqueue('orders', '{\"late\": true}')")
        while (_value(db, floor) or 0) <= late:
            db.execute("select penstock.enqueue('orders', '1')")
            [message] = await dequeue(consumer, wait_seconds=20)
        assert message["json"] == 1
        poll = asyncio.create_task(dequeue(consumer, wait_seconds=20))
        await waiting(web, 1)
        block.commit()
        [message] = await poll
    assert message["json"] == {"late": True}
    assert _value(db, "select penstock.rescans_that_found()") == 0


def _value(connection: Db, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
