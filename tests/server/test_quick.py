"""The short way through the driver: the same answers, the same errors, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from penstock.errors import DatabaseUnavailableError, QueueNotFoundError
from penstock.message import NewMessage
from penstock.operations import ack_many, claim, create_queue, enqueue_many
from penstock.server.database import Database


@pytest.fixture(params=[1, 6])
async def database(dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """With one connection: whatever happens on it, the next statement meets it there. Of more, some
    are kept from one statement to the next."""
    opened = Database(dsn, request.param)
    await opened.open()
    await opened.run(create_queue("orders"))
    yield opened
    await opened.close()


async def test_it_answers_as_a_cursor_does(database: Database) -> None:
    messages = [NewMessage({"n": 1}), NewMessage(b"\x00\xff", headers={"a": "b"}, key="k")]
    ids = await database.run_quick(enqueue_many("orders", messages))
    leases = await database.run_quick(claim("orders", 10, worker="w"))
    assert [lease.id for lease in leases] == ids
    assert [lease.payload for lease in leases] == [{"n": 1}, b"\x00\xff"]
    assert leases[0].enqueued_at.utcoffset() is not None
    assert await database.run_quick(ack_many(leases)) == set(ids)
    assert await database.run_quick(claim("orders", 10)) == []


async def test_an_error_is_ours_and_leaves_the_connection_good(database: Database) -> None:
    for _ in range(2):
        with pytest.raises(QueueNotFoundError):
            await database.run_quick(claim("nowhere"))
        assert await database.run_quick(claim("orders")) == []


async def test_statements_that_were_forgotten_are_prepared_again(database: Database) -> None:
    for _ in range(2):
        [id] = await database.run_quick(enqueue_many("orders", ["x"]))
        async with database.transaction() as connection:
            await connection.execute("deallocate all")
        assert [lease.id for lease in await database.run_quick(claim("orders"))] == [id]


async def test_much_that_the_socket_does_not_take_at_once_goes_through(database: Database) -> None:
    payload = "x" * 200_000
    ids = await database.run_quick(enqueue_many("orders", [payload] * 100))
    leases = await database.run_quick(claim("orders", 100))
    assert [lease.id for lease in leases] == ids
    assert {len(lease.payload) for lease in leases} == {len(payload)}


async def test_a_connection_that_was_cut_off_is_replaced(database: Database, dsn: str) -> None:
    await database.run_quick(claim("orders"))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    while True:
        try:
            assert await database.run_quick(claim("orders")) == []
            break
        except DatabaseUnavailableError:  # it was cut off in the middle
            await asyncio.sleep(0.05)


async def test_statements_at_the_same_time_each_get_their_answer(database: Database) -> None:
    batches = [[f"{n}.{m}" for m in range(3)] for n in range(12)]
    commands = [enqueue_many("orders", batch) for batch in batches]
    ids = await asyncio.gather(*(database.run_quick(command) for command in commands))
    leases = await database.run_quick(claim("orders", 100))
    payloads = {lease.id: lease.payload for lease in leases}
    assert [[payloads[id] for id in each] for each in ids] == batches


async def test_one_that_is_given_up_leaves_nothing_for_the_next(database: Database) -> None:
    """Its answer may be on the way: nobody else may take it for theirs."""
    [id] = await database.run_quick(enqueue_many("orders", ["x"]))
    given_up = asyncio.ensure_future(database.run_quick(enqueue_many("orders", ["y"] * 1000)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert [lease.id for lease in await database.run_quick(claim("orders"))] == [id]
