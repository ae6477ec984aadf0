"""All queues at a glance: counted as far as that is cheap, estimated beyond."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from penstock import Client
from penstock.commands import read


@pytest.mark.usefixtures("zoo")
def test_counts_are_those_of_each_queue_alone(run: Any, client: Client) -> None:
    client.create_queue("idle")
    for found in run(read.all_stats()):
        alone = client.stats(found.queue)
        assert (found.ready, found.scheduled, found.leased, found.dead, found.estimated) == (
            *(alone.ready, alone.scheduled, alone.leased, alone.dead),
            False,
        )
        assert (found.oldest_ready_seconds is None) == (found.queue == "idle")


def test_many_are_estimated_and_few_beside_them_are_counted(
    run: Any, client: Client, db: psycopg.Connection[Any]
) -> None:
    client.create_queue("many")
    client.create_queue("few")
    client.enqueue("few", 1)
    # The floors of a queue with priorities, and what was acked at the left of its lane.
    client.enqueue("few", 2, priority=5)
    client.ack(client.claim("few")[0])
    payloads = "array_fill(to_jsonb(repeat('x', 500)), array[10000])"
    for _ in range(6):
        db.execute(f"select count(*) from penstock.enqueue_many('many', {payloads})")
    few, many = run(read.all_stats())
    assert (few.queue, few.ready, few.estimated) == ("few", 1, False)
    assert many.estimated
    assert 40_000 < many.ready < 80_000
    assert run(read.all_stats())[1].ready == many.ready


def test_purge_stops_at_its_limit(client: Client) -> None:
    client.create_queue("q")
    for n in range(10):
        client.enqueue("q", n, delay=3600 if n % 2 else None)
    assert client.purge("q", max_count=7) == 7
    assert client.stats("q").ready + client.stats("q").scheduled == 3
    assert client.purge("q", max_count=0) == 0
    assert client.purge("q") == 3
