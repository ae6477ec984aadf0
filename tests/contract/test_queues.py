"""Queues: made, set, held up, emptied, counted, dropped."""

import pytest

from penstock import QueueSettings
from penstock.errors import (
    InvalidQueueNameError,
    InvalidValueError,
    QueueExistsError,
    QueueNotEmptyError,
    QueueNotFoundError,
)
from penstock.model.queue import Backoff


async def test_a_new_queue_has_the_default_settings(client):
    assert await client.create_queue("fresh") is True
    queue = await client.queue("fresh")
    assert queue.settings == QueueSettings()
    assert queue.name == "fresh"
    assert not queue.paused
    assert queue.created_at <= queue.updated_at


async def test_a_queue_can_be_made_with_settings(client):
    settings = QueueSettings(
        lease_seconds=60,
        max_attempts=3,
        backoff=Backoff(kind="linear", base_seconds=2, max_seconds=20, jitter=0),
        dlq_enabled=False,
        message_ttl_seconds=3600,
        max_depth=100,
        throughput_limit=50,
        max_in_flight=10,
        max_payload_bytes=1000,
        keep_history=0,
        paused=True,
    )
    await client.create_queue("tuned", settings)
    assert (await client.queue("tuned")).settings == settings
    await client.create_queue("like-it", (await client.queue("tuned")).settings, max_attempts=4)
    assert (await client.queue("like-it")).settings.max_attempts == 4


async def test_a_queue_that_is_there_is_an_error_unless_that_is_fine(client):
    with pytest.raises(QueueExistsError) as caught:
        await client.create_queue("orders")
    assert caught.value.queue == "orders"
    assert await client.create_queue("orders", exist_ok=True, max_attempts=9) is False
    assert (await client.queue("orders")).settings.max_attempts == 5


async def test_settings_change_one_by_one_and_none_is_the_default(client):
    await client.set_queue("orders", max_attempts=9, max_depth=5)
    await client.set_queue("orders", max_depth=None)
    settings = (await client.queue("orders")).settings
    assert (settings.max_attempts, settings.max_depth) == (9, None)


async def test_backoff_can_be_given_in_part(client):
    await client.set_queue("orders", backoff={"kind": "constant"})
    backoff = (await client.queue("orders")).settings.backoff
    assert backoff.kind == "constant"
    await client.set_queue("orders", backoff=Backoff(base_seconds=7))
    assert (await client.queue("orders")).settings.backoff == Backoff(base_seconds=7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lease_seconds", 0),
        ("lease_seconds", 43_201),
        ("lease_seconds", "30"),
        ("lease_seconds", 1.5),
        ("max_attempts", 0),
        ("max_attempts", 101),
        ("backoff", {"kind": "random"}),
        ("backoff", {"base": 1}),
        ("backoff", 5),
        ("dlq_enabled", 1),
        ("message_ttl_seconds", 0),
        ("max_depth", 0),
        ("max_depth", 10**30),
        ("throughput_limit", 1_000_001),
        ("max_in_flight", 0),
        ("max_payload_bytes", 104_857_601),
        ("keep_history", -1),
        ("keep_history", 3651),
        ("paused", "yes"),
        ("max_atempts", 3),
    ],
)
async def test_a_setting_out_of_range_is_refused_and_nothing_changes(client, field, value):
    with pytest.raises(InvalidValueError) as caught:
        await client.set_queue("orders", **{"max_attempts": 7, field: value})
    assert caught.value.field
    assert caught.value.allowed
    with pytest.raises(InvalidValueError):
        await client.create_queue("fresh", **{field: value})
    assert [queue.name for queue in await client.queues()] == ["orders"]
    assert (await client.queue("orders")).settings == QueueSettings()


@pytest.mark.parametrize("name", ["", "Orders", "a b", "a/b", "x" * 129, "ü", "orders.dlq"])
async def test_a_name_that_breaks_the_rules_is_refused(client, name):
    with pytest.raises(InvalidQueueNameError):
        await client.create_queue(name)


async def test_queues_are_listed_by_name(client):
    await client.create_queue("b")
    await client.create_queue("a")
    assert [queue.name for queue in await client.queues()] == ["a", "b", "orders"]


async def test_a_paused_queue_gives_nothing_out_but_takes_in(client):
    await client.pause("orders")
    await client.enqueue("orders", 1)
    assert await client.claim("orders") == []
    assert (await client.queue("orders")).paused
    await client.resume("orders")
    assert len(await client.claim("orders")) == 1


async def test_a_purged_queue_keeps_only_what_is_in_work(client):
    await client.enqueue_many("orders", range(3))
    await client.enqueue("orders", "later", delay=60)
    assert len(await client.claim("orders")) == 1
    assert await client.purge("orders") == 3
    stats = await client.stats("orders")
    assert (stats.ready, stats.scheduled, stats.leased) == (0, 0, 1)
    assert await client.purge("orders", include_leased=True) == 1
    assert (await client.stats("orders")).leased == 0


async def test_dead_letters_are_purged_by_their_own_name(client):
    await client.enqueue("orders", 1)
    await client.reject((await client.claim("orders"))[0])
    assert await client.purge("orders") == 0
    assert await client.purge("orders.dlq") == 1
    assert (await client.stats("orders")).dead == 0


async def test_stats_count_every_state(client):
    await client.enqueue_many("orders", range(4))
    await client.enqueue("orders", "later", delay=60)
    first, _ = await client.claim("orders", 2)
    await client.reject(first)
    stats = await client.stats("orders")
    assert (stats.queue, stats.ready, stats.scheduled) == ("orders", 2, 1)
    assert (stats.leased, stats.dead, stats.estimated) == (1, 1, False)
    assert 0 <= stats.oldest_ready_seconds < 60


async def test_an_empty_queue_has_no_oldest_message(client):
    assert not (await client.stats("orders")).oldest_ready_seconds


async def test_an_empty_queue_can_be_dropped(client):
    assert await client.drop_queue("orders") == 0
    assert await client.queues() == []


async def test_a_queue_with_messages_is_dropped_only_by_force(client):
    await client.enqueue_many("orders", range(3))
    with pytest.raises(QueueNotEmptyError) as caught:
        await client.drop_queue("orders")
    assert (caught.value.queue, caught.value.count) == ("orders", 3)
    assert await client.drop_queue("orders", force=True) == 3
    with pytest.raises(QueueNotFoundError):
        await client.queue("orders")


async def test_a_dropped_queue_can_be_made_again_and_is_empty(client):
    await client.enqueue("orders", "old")
    await client.drop_queue("orders", force=True)
    await client.create_queue("orders")
    assert await client.claim("orders") == []
