"""Claims and acks that come at the same time share a statement, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from penstock import AsyncClient, LeaseLostError
from penstock.commands.arguments import UNSET
from penstock.errors import QueueNotFoundError


class Counting(AsyncClient):
    """Notes what it runs."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.statements: list[str] = []

    async def run(self, command: Any, connection: Any = UNSET) -> Any:
        self.statements.append(command.sql)
        return await super().run(command, connection)

    def acks(self) -> int:
        return sum("penstock.ack" in sql for sql in self.statements)

    def claims(self) -> int:
        return sum("penstock.claim" in sql for sql in self.statements)


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Counting]:
    async with Counting(dsn) as opened:
        await opened.create_queue("orders")
        await opened.enqueue_many("orders", range(100))
        yield opened


async def left(client: AsyncClient) -> tuple[int, int]:
    stats = await client.stats("orders")
    return stats.ready, stats.leased


async def test_claims_that_wait_go_together(client: Counting) -> None:
    found = await asyncio.gather(*(client.claim("orders", 1 + n % 3) for n in range(40)))
    assert [len(each) for each in found] == [1 + n % 3 for n in range(40)]
    assert [lease.payload for each in found for lease in each] == list(range(79))
    assert client.claims() == 2
    # Of what is left the first get what they want, the others the rest, or nothing.
    found = await asyncio.gather(*(client.claim("orders", 10) for _ in range(4)))
    assert [len(each) for each in found] == [10, 10, 1, 0]


async def test_claims_of_different_kinds_do_not(client: Counting) -> None:
    await client.create_queue("bills")
    await client.enqueue("bills", "a bill")
    found = await asyncio.gather(
        client.claim("orders"),
        client.claim("bills"),
        client.claim("orders", worker="other"),
        client.claim("orders", lease_seconds=500),
        client.claim("orders", 50),
        client.claim("nowhere"),
        client.claim("nowhere"),
        return_exceptions=True,
    )
    *leases, missing, missing_too = found
    assert [len(each) for each in leases if isinstance(each, list)] == [1, 1, 1, 1, 50]
    assert isinstance(missing, QueueNotFoundError)
    assert isinstance(missing_too, QueueNotFoundError)


async def test_what_was_claimed_for_one_who_has_gone_is_given_back(client: Counting) -> None:
    first = asyncio.create_task(client.claim("orders", 1))
    await asyncio.sleep(0)
    gone = asyncio.create_task(client.claim("orders", 5))
    stays = asyncio.create_task(client.claim("orders", 5))
    await asyncio.sleep(0)
    await first
    await asyncio.sleep(0)  # now the other two are under way
    gone.cancel()
    assert [lease.payload for lease in await stays] == [6, 7, 8, 9, 10]
    for _ in range(3000):
        if await left(client) == (94, 6):
            break
        await asyncio.sleep(0.01)
    again = await client.claim("orders", 100)
    assert {1, 2, 3, 4, 5} <= {lease.payload for lease in again}
    assert {lease.attempt for lease in again} == {1}


async def test_those_that_wait_go_together(client: Counting) -> None:
    leases = await client.claim("orders", 100)
    ones = [client.ack(lease) for lease in leases[:50]]
    tens = [client.ack_many(leases[n : n + 10]) for n in range(50, 100, 10)]
    answers = await asyncio.gather(*ones, *tens)
    assert answers[:50] == [None] * 50
    assert answers[50:] == [{each.id for each in leases[n : n + 10]} for n in range(50, 100, 10)]
    assert await left(client) == (0, 0)
    assert client.acks() == 2


async def test_one_that_is_alone_goes_at_once(client: Counting) -> None:
    for lease in await client.claim("orders", 3):
        await client.ack(lease)
    assert client.acks() == 3
    assert await left(client) == (97, 0)


async def test_a_lost_lease_is_told_to_its_holder_alone(client: Counting) -> None:
    first, lost, *more = await client.claim("orders", 5)
    await client.nack(lost, delay=3600)
    answers = await asyncio.gather(
        *(client.ack(lease) for lease in (first, lost, *more)),
        client.ack_many([lost]),
        return_exceptions=True,
    )
    assert [type(each) for each in answers[:5]] == [type(None), LeaseLostError, *[type(None)] * 3]
    assert answers[5] == set()


async def test_of_two_proofs_for_one_message_the_right_one_settles_it(client: Counting) -> None:
    first, old = await client.claim("orders", 2)
    await client.nack(old, delay=0)
    leases = await client.claim("orders", 100)
    (new,) = [lease for lease in leases if lease.id == old.id]
    answers = await asyncio.gather(
        client.ack(first), client.ack(old), client.ack(new), return_exceptions=True
    )
    assert [type(each) for each in answers] == [type(None), LeaseLostError, type(None)]


async def test_who_gives_up_waiting_takes_nobody_along(client: Counting) -> None:
    leases = await client.claim("orders", 20)
    tasks = [asyncio.create_task(client.ack(lease)) for lease in leases]
    await asyncio.sleep(0)
    tasks[0].cancel()  # the one that is under way
    tasks[1].cancel()  # the first of those that wait for it
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[2:] == [None] * 18
    # And the next ones continue.
    (lease,) = await client.claim("orders", 1)
    await client.ack(lease)


async def test_an_error_reaches_all_of_them(client: Counting, dsn: str) -> None:
    leases = await client.claim("orders", 10)
    await client.close()
    answers = await asyncio.gather(*(client.ack(lease) for lease in leases), return_exceptions=True)
    assert all(isinstance(each, Exception) for each in answers)


async def test_what_has_a_connection_of_its_own_stays_there(client: Counting, dsn: str) -> None:
    leases = await client.claim("orders", 10)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        tasks = [asyncio.create_task(client.ack(lease)) for lease in leases[:5]]
        await asyncio.sleep(0)
        await client.ack_many(leases[5:], connection=connection)
        await asyncio.gather(*tasks)
        await connection.rollback()
    assert await left(client) == (90, 5)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        own = AsyncClient(connection=connection)
        await asyncio.gather(*(own.ack(lease) for lease in leases[5:]))
        await connection.rollback()
    assert await left(client) == (90, 5)
