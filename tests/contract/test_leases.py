"""Claim, and everything that only the holder of a lease can do."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock import LeaseLostError


@pytest.fixture
async def lease(client):
    await client.enqueue("orders", {"n": 1})
    [lease] = await client.claim("orders")
    return lease


@pytest.fixture
async def leases(client):
    await client.enqueue_many("orders", range(3))
    return await client.claim("orders", 3)


async def test_an_empty_queue_gives_nothing(client):
    assert await client.claim("orders", 10) == []


async def test_a_claimed_message_is_not_given_out_again(client, lease):
    assert await client.claim("orders") == []


async def test_a_claim_takes_no_more_than_asked(client):
    await client.enqueue_many("orders", range(10))
    assert len(await client.claim("orders", 3)) == 3


@pytest.mark.parametrize("length", [90, 90.0, timedelta(seconds=90)])
async def test_a_lease_lasts_as_long_as_asked(client, length):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders", lease_seconds=length)
    left = (lease.lease_until - datetime.now(UTC)).total_seconds()
    assert 80 < left <= 90


async def test_a_worker_is_named_in_the_message_and_among_the_workers(client):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders", worker="w7")
    assert (await client.message(lease.id)).worker == "w7"
    [worker] = await client.workers()
    assert (worker.worker, worker.queue, worker.leased) == ("w7", "orders", 1)


async def test_an_acked_message_is_done(client, lease):
    await client.ack(lease)
    message = await client.message(lease.id)
    assert (message.state, message.attempt, message.payload) == ("done", 1, {"n": 1})
    assert message.finished_at is not None
    assert await client.claim("orders") == []


async def test_a_message_is_settled_by_its_id_and_token_as_well(client, lease):
    await client.ack((lease.id, lease.token))
    assert (await client.message(lease.id)).state == "done"


async def test_a_nacked_message_comes_back_with_its_error(client, lease):
    assert await client.nack(lease, "no route", delay=0) == "ready"
    [again] = await client.claim("orders")
    assert (again.id, again.attempt, again.last_error) == (lease.id, 2, "no route")
    assert again.token != lease.token


async def test_a_nacked_message_waits_for_the_queues_backoff(client, lease):
    await client.set_queue("orders", backoff={"base_seconds": 60})
    assert await client.nack(lease, "no route") == "scheduled"
    assert await client.claim("orders") == []


async def test_a_nacked_message_waits_for_the_delay_asked(client, lease):
    assert await client.nack(lease, delay=timedelta(hours=1)) == "scheduled"
    visible_at = (await client.message(lease.id)).visible_at
    assert visible_at > datetime.now(UTC) + timedelta(minutes=59)


async def test_an_exception_can_be_the_error(client, lease):
    await client.nack(lease, ValueError("bad zip code"), delay=0)
    [again] = await client.claim("orders")
    assert again.last_error == "ValueError: bad zip code"


async def test_strange_characters_in_an_error_do_not_keep_a_message_from_its_nack(client, lease):
    await client.nack(lease, "a\x00b\ud800c", delay=0)
    [again] = await client.claim("orders")
    assert again.last_error == "a\ufffdb?c"


async def test_the_last_attempt_that_fails_leads_to_the_dead_letters(client):
    id = await client.enqueue("orders", "x", max_attempts=1)
    [lease] = await client.claim("orders")
    assert await client.nack(lease, "gave up") == "dead"
    message = await client.message(id)
    assert (message.state, message.last_error) == ("dead", "gave up")
    assert message.dead_at is not None


async def test_a_rejected_message_is_dead_at_once(client, lease):
    assert await client.reject(lease, "malformed") == "dead"
    assert (await client.message(lease.id)).last_error == "malformed"


async def test_dead_letters_can_be_claimed_like_any_queue(client, lease):
    await client.reject(lease, "malformed")
    [dead] = await client.claim("orders.dlq")
    assert (dead.id, dead.payload, dead.original_queue) == (lease.id, {"n": 1}, "orders")


async def test_a_snoozed_message_keeps_its_attempt(client, lease):
    assert await client.snooze(lease) == "ready"
    [again] = await client.claim("orders")
    assert (again.id, again.attempt) == (lease.id, 1)


async def test_a_message_is_snoozed_for_as_long_as_asked(client, lease):
    assert await client.snooze(lease, timedelta(minutes=5)) == "scheduled"
    assert await client.claim("orders") == []


async def test_an_extended_lease_ends_later(client, lease):
    until = await client.extend(lease, 3600)
    assert until > lease.lease_until + timedelta(minutes=50)
    assert (await client.message(lease.id)).lease_until == until


async def test_a_lease_that_ran_out_gives_the_message_to_the_next_claim(client, lease, run_out):
    run_out()
    [again] = await client.claim("orders")
    assert (again.id, again.attempt) == (lease.id, 2)
    assert again.last_error
    with pytest.raises(LeaseLostError):
        await client.ack(lease)
    await client.ack(again)


async def test_the_story_of_a_message_tells_its_attempts(client, lease):
    await client.nack(lease, "first", delay=0)
    [again] = await client.claim("orders", worker="w2")
    await client.ack(again)
    message = await client.message(lease.id)
    [attempt] = message.attempts
    assert (attempt.attempt, attempt.error, attempt.queue) == (1, "first", "orders")
    assert attempt.started_at <= attempt.ended_at
    assert (message.attempt, message.worker) == (2, "w2")


VERBS = ["ack", "nack", "reject", "snooze", "extend"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_settled_message_cannot_be_settled_again(client, lease, verb):
    await client.ack(lease)
    with pytest.raises(LeaseLostError) as caught:
        await getattr(client, verb)(lease)
    assert caught.value.id == lease.id
    assert (await client.message(lease.id)).state == "done"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("token", [0, 1, -1, 2**63 - 1])
async def test_a_token_made_up_settles_nothing(client, lease, verb, token):
    with pytest.raises(LeaseLostError):
        await getattr(client, verb)((lease.id, token))
    assert (await client.message(lease.id)).state == "leased"


@pytest.mark.parametrize("verb", VERBS)
async def test_one_messages_token_settles_no_other(client, leases, verb):
    [other] = [one for one in leases if one.payload == 1]
    id = await client.enqueue("orders", "later")
    [later] = await client.claim("orders")
    with pytest.raises(LeaseLostError):
        await getattr(client, verb)((later.id, other.token))
    assert (await client.message(id)).state == "leased"


@pytest.mark.parametrize("verb", ["ack_many", "nack_many", "reject_many", "snooze_many"])
async def test_many_are_settled_at_once_and_the_lost_one_is_left_out(client, leases, verb):
    await client.ack(leases[1])
    settled = await getattr(client, verb)(leases)
    assert set(settled) == {leases[0].id, leases[2].id}


async def test_many_are_extended_at_once_and_the_lost_one_is_left_out(client, leases):
    await client.ack(leases[1])
    extended = await client.extend_many(leases, 600)
    assert set(extended) == {leases[0].id, leases[2].id}
    assert all(until > leases[0].lease_until for until in extended.values())


async def test_each_of_many_can_have_its_own_error_and_delay(client, leases):
    states = await client.nack_many(leases, ["a", None, "c"], delay=[0, 60, 0])
    assert [states[one.id] for one in leases] == ["ready", "scheduled", "ready"]
    assert [one.last_error for one in await client.claim("orders", 10)] == ["a", "c"]


async def test_one_error_and_delay_can_hold_for_many(client, leases):
    await client.nack_many(leases, "all the same", delay=0)
    again = await client.claim("orders", 10)
    assert {one.last_error for one in again} == {"all the same"}
    assert len(again) == 3


async def test_many_are_rejected_each_with_its_reason(client, leases):
    states = await client.reject_many(leases, ["a", "b", "c"])
    assert set(states.values()) == {"dead"}
    dead = await client.messages("orders", "dead")
    assert [one.last_error for one in dead] == ["a", "b", "c"]


async def test_many_are_snoozed_each_for_its_time(client, leases):
    states = await client.snooze_many(leases, [0, 60, 0])
    assert sorted(states.values()) == ["ready", "ready", "scheduled"]


@pytest.mark.parametrize(
    "verb", ["ack_many", "nack_many", "reject_many", "snooze_many", "extend_many"]
)
async def test_no_leases_is_nothing_to_do(client, verb):
    assert not await getattr(client, verb)([])
