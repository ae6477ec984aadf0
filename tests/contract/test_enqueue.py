"""Messages are delivered as they were enqueued: payloads, order, delays, keys, groups, options."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock import NewMessage

PAYLOADS = [
    {"to": "ada@example.com", "lines": [1, 2.5, None, True]},
    [],
    {},
    'text with "quotes", ümlauts, 🚰 and a \\u0000 that is none',
    "",
    0,
    -1,
    2**63,
    10**400,
    0.1,
    1e16,
    1e23,
    -1.5e300,
    5e-324,
    True,
    None,
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda p: repr(p)[:20])
async def test_a_json_payload_comes_back_as_the_same_value_of_the_same_type(client, payload):
    await client.enqueue("orders", payload)
    [lease] = await client.claim("orders")
    assert lease.payload == payload
    assert type(lease.payload) is type(payload)


@pytest.mark.parametrize("payload", [b"", b"\x00\xff", bytearray(b"ab"), memoryview(b"cd")])
async def test_a_bytes_payload_comes_back_as_bytes(client, payload):
    await client.enqueue("orders", payload)
    [lease] = await client.claim("orders")
    assert lease.payload == bytes(payload)
    assert type(lease.payload) is bytes


async def test_a_large_payload_comes_back_whole(client):
    text = "x" * 200_000
    await client.enqueue("orders", text)
    [lease] = await client.claim("orders")
    assert lease.payload == text


async def test_an_integer_too_long_for_pythons_parser_is_still_read(client, connect):
    connect().execute("select penstock.enqueue('orders', '1e5000'::jsonb)")
    [lease] = await client.claim("orders")
    assert lease.payload == 10**5000


async def test_a_claimed_message_carries_everything_it_was_given(client):
    before = datetime.now(UTC)
    id = await client.enqueue(
        "orders",
        {"n": 1},
        key="customer-7",
        priority=3,
        headers={"tenant": "a", "n": [1]},
        max_attempts=2,
        ttl=timedelta(hours=1),
    )
    [lease] = await client.claim("orders", worker="w1")
    assert (lease.id, lease.queue, lease.key, lease.priority) == (id, "orders", "customer-7", 3)
    assert lease.headers == {"tenant": "a", "n": [1]}
    assert (lease.attempt, lease.max_attempts, lease.group) == (1, 2, None)
    assert lease.last_error is None
    assert before - timedelta(seconds=1) < lease.enqueued_at < lease.lease_until
    assert lease.expires_at is not None
    assert lease.expires_at - lease.enqueued_at == timedelta(hours=1)
    assert lease.enqueued_at.tzinfo is UTC


async def test_a_message_without_headers_has_empty_ones(client):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders")
    assert lease.headers == {}


async def test_messages_come_out_in_the_order_they_went_in(client):
    ids = [await client.enqueue("orders", n) for n in range(5)]
    assert [lease.id for lease in await client.claim("orders", 10)] == ids


async def test_a_higher_priority_comes_out_first(client):
    for priority in (-9, 0, 9, 3):
        await client.enqueue("orders", priority, priority=priority)
    assert [lease.payload for lease in await client.claim("orders", 10)] == [9, 3, 0, -9]


@pytest.mark.parametrize("delay", [60, 60.5, timedelta(minutes=1)])
async def test_a_delayed_message_waits(client, delay):
    id = await client.enqueue("orders", 1, delay=delay)
    assert await client.claim("orders") == []
    message = await client.message(id)
    assert message.state == "scheduled"
    assert message.visible_at is not None
    assert message.visible_at > message.enqueued_at + timedelta(seconds=59)


async def test_a_message_for_a_certain_time_waits_for_it(client):
    at = datetime.now(UTC) + timedelta(days=400)
    id = await client.enqueue("orders", 1, visible_at=at)
    assert await client.claim("orders") == []
    assert (await client.message(id)).visible_at == at


async def test_a_message_for_a_time_that_has_passed_is_ready(client):
    await client.enqueue("orders", 1, visible_at=datetime.now(UTC) - timedelta(days=1))
    assert len(await client.claim("orders")) == 1


async def test_an_expired_message_is_never_given_out(client):
    id = await client.enqueue("orders", 1, ttl=timedelta(microseconds=1))
    assert await client.claim("orders") == []
    await client.maintain(full_pass=True)
    assert (await client.message(id)).state == "expired"


async def test_a_second_message_with_a_key_replaces_the_waiting_one(client):
    first = await client.enqueue("orders", "old", key="k")
    second = await client.enqueue("orders", "new", key="k", headers={"h": 1})
    assert first == second
    [lease] = await client.claim("orders", 10)
    assert (lease.payload, lease.headers) == ("new", {"h": 1})


async def test_a_second_message_with_a_key_can_be_skipped(client):
    first = await client.enqueue("orders", "old", key="k")
    assert await client.enqueue("orders", "new", key="k", on_conflict="skip") == first
    assert [lease.payload for lease in await client.claim("orders", 10)] == ["old"]


async def test_a_key_is_free_again_once_its_message_is_in_work(client):
    first = await client.enqueue("orders", "old", key="k")
    await client.claim("orders")
    assert await client.enqueue("orders", "new", key="k") != first


async def test_a_key_can_be_held_until_its_message_is_finished(client):
    first = await client.enqueue("orders", "old", key="k")
    [lease] = await client.claim("orders")
    skipped = await client.enqueue(
        "orders", "new", key="k", on_conflict="skip", unique="unfinished"
    )
    assert skipped == first
    await client.ack(lease)
    assert await client.enqueue("orders", "new", key="k", unique="unfinished") != first


async def test_a_group_is_served_in_order_one_at_a_time(client):
    await client.enqueue_many("orders", [NewMessage(n, group="g") for n in range(3)])
    served = []
    for _ in range(3):
        [lease] = await client.claim("orders", 10)
        assert lease.group == "g"
        assert await client.claim("orders", 10) == []
        served.append(lease.payload)
        await client.ack(lease)
    assert served == [0, 1, 2]
