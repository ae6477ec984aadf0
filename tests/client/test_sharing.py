"""One client, many callers; and callers who change their minds."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock import AsyncClient, Client


def test_threads_share_a_client_and_no_message_is_given_out_twice(dsn):
    with Client(dsn, max_size=4) as queue:
        queue.create_queue("orders")

        def work(worker):
            for n in range(25):
                queue.enqueue("orders", [worker, n])
            leases = queue.claim("orders", 25)
            assert queue.ack_many(leases) == {lease.id for lease in leases}
            return {lease.id for lease in leases}

        with ThreadPoolExecutor(8) as threads:
            taken = list(threads.map(work, range(8)))
        rest = {lease.id for lease in queue.claim("orders", 1000)}
        assert sum(map(len, taken)) + len(rest) == 200
        assert len(set().union(rest, *taken)) == 200


async def test_tasks_share_a_client(dsn):
    async with AsyncClient(dsn, max_size=4) as queue:
        await queue.create_queue("orders")
        await asyncio.gather(*(queue.enqueue("orders", n) for n in range(50)))
        batches = await asyncio.gather(*(queue.claim("orders", 5) for _ in range(20)))
        assert sorted(lease.payload for batch in batches for lease in batch) == list(range(50))


def test_threads_that_come_first_open_one_pool_together(dsn):
    queue = Client(dsn, max_size=2)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: queue.create_queue(f"q{n}"), range(8)))
    assert len(queue.queues()) == 8
    queue.close()


def until_somebody_waits(watcher):
    """For a lock, in this database: other tests have theirs."""
    query = (
        "select 1 from pg_locks join pg_database on pg_database.oid = database"
        " where not granted and datname = current_database()"
    )
    while not watcher.execute(query).fetchone():
        pass


async def test_a_cancelled_call_leaves_the_client_usable(dsn, connect):
    async with AsyncClient(dsn, max_size=1) as queue:
        await queue.create_queue("orders")
        blocker = connect(autocommit=False)
        blocker.execute("lock table penstock.queue in access exclusive mode")
        waiting = asyncio.create_task(queue.enqueue("orders", "never"))
        await asyncio.to_thread(until_somebody_waits, connect())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        blocker.rollback()
        await queue.enqueue("orders", "after")
        assert [lease.payload for lease in await queue.claim("orders", 10)] == ["after"]


async def test_leases_fit_into_sets(dsn):
    async with AsyncClient(dsn) as queue:
        await queue.create_queue("orders")
        await queue.enqueue("orders", {"n": 1}, headers={"h": 1})
        leases = await queue.claim("orders")
        assert len({*leases, *leases}) == 1
        assert len({await queue.message(leases[0].id)}) == 1
