"""Many at once: any iterable, all or none."""

from datetime import timedelta

import pytest

from penstock import NewMessage
from penstock.errors import (
    InvalidValueError,
    PayloadNotStorableError,
    PayloadTooLargeError,
    QueueNotFoundError,
)


async def test_payloads_and_messages_mix(client):
    done = await client.enqueue_many(
        "orders", [1, b"raw", NewMessage({"n": 3}, priority=5, headers={"h": 1}), None]
    )
    leases = await client.claim("orders", 10)
    assert [lease.payload for lease in leases] == [{"n": 3}, 1, b"raw", None]
    assert leases[0].headers == {"h": 1}
    assert leases[1].headers == {}
    assert done.count == 4


async def test_every_option_of_a_message_reaches_it(client):
    message = NewMessage(
        1,
        key="k",
        priority=2,
        delay=60,
        ttl=timedelta(hours=2),
        headers={"h": 1},
        max_attempts=9,
    )
    done = await client.enqueue_many("orders", [message, 2])
    found = await client.message(done.first_id)
    assert (found.key, found.priority, found.max_attempts, found.state) == ("k", 2, 9, "scheduled")
    assert found.headers == {"h": 1}
    assert found.expires_at is not None
    plain = await client.message(done.last_id)
    assert (plain.key, plain.priority, plain.max_attempts, plain.state) == (None, 0, 5, "ready")
    assert plain.expires_at is None


async def test_several_chunks_keep_their_order(client):
    done = await client.enqueue_many("orders", range(25), chunk_size=10)
    assert done.count == 25
    leases = await client.claim("orders", 100)
    assert [lease.payload for lease in leases] == list(range(25))
    assert (done.first_id, done.last_id) == (leases[0].id, leases[-1].id)


async def test_nothing_is_a_number_of_messages_too(client):
    done = await client.enqueue_many("orders", [])
    assert (done.count, done.first_id, done.last_id) == (0, None, None)


async def test_nothing_into_an_unknown_queue_is_still_an_error(client):
    with pytest.raises(QueueNotFoundError):
        await client.enqueue_many("absent", [])


async def test_one_bad_message_in_a_late_chunk_leaves_none_of_them(client):
    with pytest.raises(PayloadNotStorableError):
        await client.enqueue_many("orders", [*range(20), float("nan")], chunk_size=5)
    assert (await client.stats("orders")).ready == 0


async def test_one_message_too_large_leaves_none_of_them(client):
    await client.set_queue("orders", max_payload_bytes=100)
    with pytest.raises(PayloadTooLargeError):
        await client.enqueue_many("orders", [*range(20), "x" * 200], chunk_size=5)
    assert (await client.stats("orders")).ready == 0


async def test_an_iterable_that_fails_leaves_none_of_them(client):
    def broken():
        yield from range(20)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await client.enqueue_many("orders", broken(), chunk_size=5)
    assert (await client.stats("orders")).ready == 0


async def test_large_payloads_are_sent_in_smaller_chunks(client):
    done = await client.enqueue_many("orders", ("x" * 200_000 for _ in range(60)))
    assert done.count == 60
    assert len(await client.claim("orders", 100)) == 60


async def test_a_repeated_key_replaces_within_the_call(client):
    messages = [NewMessage(n, key="k") for n in range(3)]
    await client.enqueue_many("orders", messages)
    assert [lease.payload for lease in await client.claim("orders", 10)] == [2]


@pytest.mark.parametrize("messages", ["text", b"bytes", {"a": 1}, 5, None])
async def test_one_payload_is_not_mistaken_for_many(disconnected, messages):
    with pytest.raises(InvalidValueError, match="iterable"):
        await disconnected.enqueue_many("orders", messages)


@pytest.mark.parametrize("size", [0, -1, 10_001, 1.5, "10"])
async def test_a_chunk_size_out_of_range_is_refused(disconnected, size):
    with pytest.raises(InvalidValueError, match="chunk_size"):
        await disconnected.enqueue_many("orders", [1], chunk_size=size)
