"""Every refusal by its name, with its fields and the way out; and nothing written."""

import pytest

from penstock.errors import (
    InvalidQueueNameError,
    InvalidValueError,
    KeyConflictError,
    NotReplayableError,
    PayloadTooLargeError,
    PenstockError,
    QueueFullError,
    QueueNotFoundError,
)

ON_A_QUEUE = {
    "enqueue": lambda client: client.enqueue("absent", 1),
    "enqueue_many": lambda client: client.enqueue_many("absent", [1]),
    "enqueue_many in chunks": lambda client: client.enqueue_many("absent", range(9), chunk_size=2),
    "claim": lambda client: client.claim("absent"),
    "claim dead letters": lambda client: client.claim("absent.dlq"),
    "redrive": lambda client: client.redrive("absent"),
    "purge": lambda client: client.purge("absent"),
    "purge dead letters": lambda client: client.purge("absent.dlq"),
    "pause": lambda client: client.pause("absent"),
    "resume": lambda client: client.resume("absent"),
    "set_queue": lambda client: client.set_queue("absent", max_attempts=3),
    "drop_queue": lambda client: client.drop_queue("absent"),
    "stats": lambda client: client.stats("absent"),
    "queue": lambda client: client.queue("absent"),
}


@pytest.mark.parametrize("verb", ON_A_QUEUE)
async def test_an_unknown_queue_is_named_with_the_way_out(client, verb):
    with pytest.raises(QueueNotFoundError, match="absent") as caught:
        await ON_A_QUEUE[verb](client)
    assert caught.value.queue in ("absent", "absent.dlq")
    assert caught.value.hint
    assert (caught.value.sqlstate, caught.value.http_status) == ("PS001", 404)


async def test_a_message_into_a_queue_of_dead_letters_is_refused(client):
    with pytest.raises(InvalidQueueNameError, match="reserved") as caught:
        await client.enqueue("orders.dlq", 1)
    assert caught.value.queue == "orders.dlq"
    with pytest.raises(InvalidQueueNameError):
        await client.enqueue_many("orders.dlq", [1])


async def test_a_replay_into_an_unknown_queue_is_refused(client):
    id = await client.enqueue("orders", 1)
    await client.ack((await client.claim("orders"))[0])
    with pytest.raises(NotReplayableError, match="absent") as caught:
        await client.replay(id, "absent")
    assert caught.value.id == id


@pytest.mark.parametrize("payload", ["x" * 101, b"x" * 101, {"a": ["x" * 101]}])
async def test_a_payload_over_the_limit_is_refused(client, payload):
    await client.set_queue("orders", max_payload_bytes=100)
    with pytest.raises(PayloadTooLargeError) as caught:
        await client.enqueue("orders", payload)
    assert (caught.value.queue, caught.value.limit) == ("orders", 100)
    assert caught.value.size > 100
    assert (await client.stats("orders")).ready == 0


async def test_a_payload_of_just_the_limit_is_accepted(client):
    await client.set_queue("orders", max_payload_bytes=100)
    await client.enqueue("orders", b"x" * 100)
    await client.enqueue("orders", "x" * 90)


async def test_the_default_limit_is_256_kibibytes(client):
    await client.enqueue("orders", b"x" * 262_144)
    with pytest.raises(PayloadTooLargeError):
        await client.enqueue("orders", b"x" * 262_145)


async def test_a_full_queue_says_so_until_there_is_room(client):
    await client.set_queue("orders", max_depth=2)
    await client.enqueue_many("orders", [1, 2])
    with pytest.raises(QueueFullError) as caught:
        await client.enqueue("orders", 3)
    assert (caught.value.queue, caught.value.max_depth) == ("orders", 2)
    assert caught.value.http_status == 429
    await client.ack((await client.claim("orders"))[0])
    await client.enqueue("orders", 3)


async def test_messages_that_would_not_all_fit_are_all_refused(client):
    await client.set_queue("orders", max_depth=3)
    with pytest.raises(QueueFullError):
        await client.enqueue_many("orders", range(4))
    with pytest.raises(QueueFullError):
        await client.enqueue_many("orders", range(4), chunk_size=2)
    assert (await client.stats("orders")).ready == 0
    await client.enqueue_many("orders", range(3))


async def test_a_key_in_use_is_an_error_if_asked_for(client):
    id = await client.enqueue("orders", 1, key="k")
    with pytest.raises(KeyConflictError) as caught:
        await client.enqueue("orders", 2, key="k", on_conflict="error")
    error = caught.value
    assert (error.queue, error.key, error.id, error.http_status) == ("orders", "k", id, 409)
    [lease] = await client.claim("orders", 10)
    assert lease.payload == 1


async def test_a_key_in_work_is_an_error_if_asked_for(client):
    id = await client.enqueue("orders", 1, key="k")
    await client.claim("orders")
    with pytest.raises(KeyConflictError) as caught:
        await client.enqueue("orders", 2, key="k", on_conflict="error", unique="unfinished")
    assert caught.value.id == id


OUT_OF_RANGE = {
    "priority too high": ("priority", lambda c: c.enqueue("orders", 1, priority=10)),
    "priority too low": ("priority", lambda c: c.enqueue("orders", 1, priority=-10)),
    "negative delay": ("delay", lambda c: c.enqueue("orders", 1, delay=-1)),
    "delay past the calendar": ("delay", lambda c: c.enqueue("orders", 1, delay=10**13)),
    "negative ttl": ("ttl", lambda c: c.enqueue("orders", 1, ttl=-1)),
    "no ttl at all": ("ttl", lambda c: c.enqueue("orders", 1, ttl=0)),
    "ttl past the calendar": ("ttl", lambda c: c.enqueue("orders", 1, ttl=10**13)),
    "no attempts": ("max_attempts", lambda c: c.enqueue("orders", 1, max_attempts=0)),
    "too many attempts": ("max_attempts", lambda c: c.enqueue("orders", 1, max_attempts=101)),
    "claim of none": ("count", lambda c: c.claim("orders", 0)),
    "claim of too many": ("count", lambda c: c.claim("orders", 10_001)),
    "no lease": ("lease_seconds", lambda c: c.claim("orders", lease_seconds=0)),
    "lease too long": ("lease_seconds", lambda c: c.claim("orders", lease_seconds=43_201)),
    "redrive of fewer than none": ("max_count", lambda c: c.redrive("orders", max_count=-1)),
    "standstill": ("per_second", lambda c: c.redrive("orders", per_second=0)),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
async def test_a_value_out_of_range_is_refused_by_its_name(client, case):
    field, call = OUT_OF_RANGE[case]
    with pytest.raises(InvalidValueError) as caught:
        await call(client)
    assert caught.value.field == field
    assert caught.value.allowed
    assert caught.value.http_status == 422
    assert (await client.stats("orders")).ready == 0


@pytest.mark.parametrize("verb", ["nack", "snooze"])
async def test_a_delay_out_of_range_leaves_the_message_leased(client, verb):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders")
    with pytest.raises(InvalidValueError):
        await getattr(client, verb)(lease, delay=-1)
    await client.ack(lease)


@pytest.mark.parametrize("seconds", [0, -5, 43_201])
async def test_an_extension_out_of_range_leaves_the_message_leased(client, seconds):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders")
    with pytest.raises(InvalidValueError):
        await client.extend(lease, seconds)
    await client.ack(lease)


async def test_one_bad_value_among_many_is_refused_and_none_is_enqueued(client):
    from penstock import NewMessage

    with pytest.raises(InvalidValueError) as caught:
        await client.enqueue_many("orders", [1, NewMessage(2, priority=10)])
    assert caught.value.field == "priority"
    assert (await client.stats("orders")).ready == 0


async def test_every_refusal_says_the_way_out_in_its_text(client):
    with pytest.raises(PenstockError) as caught:
        await client.enqueue("absent", 1)
    assert caught.value.hint in str(caught.value)
    assert caught.value.message in str(caught.value)
