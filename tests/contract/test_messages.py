"""Messages by id and by filter: cancel, redrive, replay, look."""

from datetime import timedelta

import pytest

from penstock.errors import LeaseLostError, MessageNotFoundError, NotReplayableError


async def kill(client, *payloads, error="boom"):
    """Dead letters in `orders`; their ids."""
    await client.enqueue_many("orders", payloads)
    leases = await client.claim("orders", len(payloads))
    await client.reject_many(leases, error)
    return [lease.id for lease in leases]


async def test_a_waiting_message_can_be_cancelled(client):
    id = await client.enqueue("orders", 1)
    assert await client.cancel(id) == "ready"
    assert await client.claim("orders") == []
    assert (await client.message(id)).state == "cancelled"


async def test_a_scheduled_message_can_be_cancelled(client):
    id = await client.enqueue("orders", 1, delay=60)
    assert await client.cancel(id) == "scheduled"


async def test_a_cancelled_message_is_lost_to_its_worker(client):
    id = await client.enqueue("orders", 1)
    [lease] = await client.claim("orders")
    assert await client.cancel(id) == "leased"
    with pytest.raises(LeaseLostError):
        await client.ack(lease)


async def test_a_finished_message_cannot_be_cancelled(client):
    id = await client.enqueue("orders", 1)
    await client.ack((await client.claim("orders"))[0])
    with pytest.raises(MessageNotFoundError) as caught:
        await client.cancel(id)
    assert caught.value.id == id


@pytest.mark.parametrize("id", [0, -1, 10**12, 2**63 - 1])
async def test_a_message_that_never_was_is_not_found(client, id):
    with pytest.raises(MessageNotFoundError):
        await client.message(id)
    with pytest.raises(MessageNotFoundError):
        await client.cancel(id)
    with pytest.raises(MessageNotFoundError):
        await client.replay(id)


async def test_dead_letters_go_back_with_their_attempts_counted_anew(client):
    ids = await kill(client, "a", "b")
    assert await client.redrive("orders") == 2
    leases = await client.claim("orders", 10)
    assert sorted(lease.id for lease in leases) == ids
    assert {lease.attempt for lease in leases} == {1}


async def test_dead_letters_can_be_named_by_their_own_queue(client):
    await kill(client, "a")
    assert await client.redrive("orders.dlq") == 1


async def test_a_dry_run_only_counts(client):
    await kill(client, "a", "b")
    assert await client.redrive("orders", dry_run=True) == 2
    assert (await client.stats("orders")).dead == 2


async def test_dead_letters_are_chosen_by_id_error_range_and_number(client):
    first = await kill(client, "a", "b", error="timeout in route 7")
    second = await kill(client, "c", "d", error="bad zip code")
    count = lambda **chosen: client.redrive("orders", dry_run=True, **chosen)  # noqa: E731
    assert await count(ids=[first[0], second[1]]) == 2
    assert await count(ids=[]) == 0
    assert await count(error_like="timeout%") == 2
    assert await count(error_like="%nothing like it%") == 0
    assert await count(id_from=second[0]) == 2
    assert await count(id_to=first[0]) == 1
    assert await count(max_count=3) == 3
    assert await count(older_than=timedelta(hours=1)) == 0
    assert await count(older_than=0) == 4


async def test_redrive_can_spread_the_messages_out(client):
    await kill(client, *range(4))
    assert await client.redrive("orders", per_second=0.1) == 4
    stats = await client.stats("orders")
    assert stats.dead == 0
    assert stats.scheduled >= 2


async def test_a_finished_message_can_be_enqueued_again(client):
    id = await client.enqueue("orders", {"n": 1}, headers={"h": 1}, priority=2)
    await client.ack((await client.claim("orders"))[0])
    copy = await client.replay(id)
    assert copy != id
    [lease] = await client.claim("orders")
    assert (lease.id, lease.payload, lease.headers, lease.attempt) == (copy, {"n": 1}, {"h": 1}, 1)
    assert lease.priority == 2


async def test_a_finished_message_can_be_enqueued_into_another_queue(client):
    await client.create_queue("copies")
    id = await client.enqueue("orders", b"raw")
    await client.ack((await client.claim("orders"))[0])
    await client.replay(id, "copies")
    [lease] = await client.claim("copies")
    assert lease.payload == b"raw"


async def test_a_message_that_is_not_finished_cannot_be_replayed(client):
    id = await client.enqueue("orders", 1)
    with pytest.raises((NotReplayableError, MessageNotFoundError)) as caught:
        await client.replay(id)
    assert caught.value.id == id


async def test_a_waiting_message_can_be_looked_at(client):
    id = await client.enqueue("orders", {"n": 1}, key="k", headers={"h": 1}, group=None)
    message = await client.message(id)
    assert (message.id, message.queue, message.state) == (id, "orders", "ready")
    assert (message.payload, message.headers, message.key) == ({"n": 1}, {"h": 1}, "k")
    assert (message.attempt, message.max_attempts, message.attempts) == (0, 5, ())
    assert message.finished_at is None


async def test_messages_are_listed_by_queue_state_key_and_error(client):
    await client.create_queue("other")
    await client.enqueue("other", "elsewhere")
    [dead] = await kill(client, "dead", error="timeout in route 7")
    later = await client.enqueue("orders", "later", delay=60)
    keyed = await client.enqueue("orders", "keyed", key="k")
    taken = await client.enqueue("orders", "taken", priority=9)
    await client.claim("orders")

    async def ids(**chosen):
        return [message.id for message in await client.messages("orders", **chosen)]

    assert await ids() == [dead, later, keyed, taken]
    assert await ids(state="dead") == [dead]
    assert await ids(state="scheduled") == [later]
    assert await ids(state="ready") == [keyed]
    assert await ids(state="leased") == [taken]
    assert await ids(key="k") == [keyed]
    assert [message.id for message in await client.messages("orders.dlq")] == [dead]
    assert await ids(error_like="timeout%") == [dead]
    assert len(await client.messages()) == 5


async def test_finished_messages_are_listed_by_their_last_state(client):
    done, cancelled = [await client.enqueue("orders", n) for n in range(2)]
    await client.cancel(cancelled)
    await client.ack((await client.claim("orders"))[0])
    [first] = await client.messages("orders", "done")
    [second] = await client.messages("orders", "cancelled")
    assert (first.id, first.state, first.payload) == (done, "done", 0)
    assert (second.id, second.state) == (cancelled, "cancelled")
    assert await client.messages("orders") == []


async def test_pages_follow_one_another(client):
    done = await client.enqueue_many("orders", range(5))
    first = await client.messages("orders", limit=3)
    second = await client.messages("orders", after=first[-1].id, limit=3)
    assert [message.payload for message in [*first, *second]] == list(range(5))
    assert second[-1].id == done.last_id


async def test_maintenance_says_what_it_did(client):
    assert isinstance(await client.maintain(), dict)
    assert isinstance(await client.maintain(full_pass=True), dict)
