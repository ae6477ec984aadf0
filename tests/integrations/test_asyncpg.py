"""asyncpg, by the one-liner of docs/reference/python.md."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import NewMessage, operations
from penstock.errors import DatabaseUnavailableError, QueueNotFoundError, from_database_error


@pytest.fixture
async def connection(dsn):
    parts = conninfo_to_dict(dsn)
    connection = await asyncpg.connect(
        host=parts["host"], user=parts.get("user"), database=parts["dbname"]
    )
    yield connection
    await connection.close()


async def test_a_message_appears_with_the_commit(queue, connection):
    async with connection.transaction():
        id = await connection.fetchval(*operations.enqueue("orders", {"n": 1}).numbered())
        assert queue.claim("orders") == []
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 1})


async def test_a_message_never_appears_after_the_rollback(queue, connection):
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetchval(*operations.enqueue("orders", {"n": 1}).numbered())
    await transaction.rollback()
    assert queue.claim("orders") == []


async def test_every_option_goes_through(queue, connection):
    at = datetime.now(UTC) + timedelta(hours=1)
    command = operations.enqueue(
        "orders",
        b"raw",
        key="k",
        priority=3,
        visible_at=at,
        ttl=timedelta(hours=2),
        headers={"h": 1},
        max_attempts=7,
    )
    id = await connection.fetchval(*command.numbered())
    message = queue.message(id)
    assert (message.payload, message.key, message.priority) == (b"raw", "k", 3)
    assert (message.headers, message.max_attempts, message.visible_at) == ({"h": 1}, 7, at)


async def test_many_messages_go_in_one_call(queue, connection):
    messages = [1, b"raw", NewMessage("later", delay=60, headers={"h": 1}), None]
    command = operations.enqueue_many("orders", messages)
    ids = command.decode(await connection.fetch(*command.numbered()))
    assert len(ids) == 4
    assert [lease.payload for lease in queue.claim("orders", 10)] == [1, b"raw", None]


async def test_the_other_verbs_work_as_well(queue, connection):
    queue.enqueue_many("orders", [{"n": 1}, b"raw", 3])
    claim = operations.claim("orders", 10, lease_seconds=60, worker="w")
    leases = claim.decode(await connection.fetch(*claim.numbered()))
    assert [lease.payload for lease in leases] == [{"n": 1}, b"raw", 3]
    nack = operations.nack(leases[0], "no route", delay=1)
    assert nack.decode(await connection.fetch(*nack.numbered())) == "scheduled"
    ack = operations.ack_many(leases)
    settled = ack.decode(await connection.fetch(*ack.numbered()))
    assert settled == {lease.id for lease in leases[1:]}
    redrive = operations.redrive("orders", per_second=0.5, older_than=1, dry_run=True)
    assert redrive.decode(await connection.fetch(*redrive.numbered())) == 0


async def test_its_errors_are_recognised(connection):
    with pytest.raises(asyncpg.PostgresError) as caught:
        await connection.fetchval(*operations.enqueue("absent", 1).numbered())
    error = from_database_error(caught.value)
    assert isinstance(error, QueueNotFoundError)
    assert (error.queue, error.sqlstate) == ("absent", "PS001")
    assert error.hint


async def test_a_database_that_is_not_there_is_recognised():
    with pytest.raises(OSError) as caught:  # noqa: PT011 - asyncpg lets the socket's own error out
        await asyncpg.connect("postgresql://nobody@127.0.0.1:1/nothing")
    assert isinstance(from_database_error(caught.value), DatabaseUnavailableError)
