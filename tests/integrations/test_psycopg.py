"""A psycopg transaction: the message and the business row, both or neither."""

import psycopg
import pytest

from penstock import AsyncClient
from penstock.errors import PayloadTooLargeError


@pytest.fixture
def table(connect):
    connect().execute("create table purchase (id bigint primary key)")


def test_the_message_and_the_row_are_committed_together(queue, dsn, table):
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into purchase values (1)")
        queue.enqueue("orders", {"purchase": 1}, connection=connection)
        assert queue.claim("orders") == []
    assert queue.claim("orders")[0].payload == {"purchase": 1}


def test_a_row_that_fails_takes_its_message_with_it(queue, dsn, table):
    def purchase(connection):
        queue.enqueue("orders", {"purchase": 1}, connection=connection)
        connection.execute("insert into purchase values (1), (1)")

    with pytest.raises(psycopg.errors.UniqueViolation), psycopg.connect(dsn) as connection:
        purchase(connection)
    assert queue.claim("orders") == []


def test_a_savepoint_saves_the_row_from_a_refused_message(queue, dsn, table):
    queue.set_queue("orders", max_payload_bytes=10)
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into purchase values (1)")
        with pytest.raises(PayloadTooLargeError), connection.transaction():
            queue.enqueue("orders", "x" * 100, connection=connection)
        assert connection.execute("select count(*) from purchase").fetchone() == (1,)


def test_work_and_ack_are_one_transaction(queue, dsn, table):
    queue.enqueue("orders", {"purchase": 7})
    [lease] = queue.claim("orders")
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into purchase values (%s)", [lease.payload["purchase"]])
        queue.ack(lease, connection=connection)
    assert queue.message(lease.id).state == "done"


async def test_an_async_transaction_is_one_as_well(queue, dsn):
    async with AsyncClient(dsn) as client:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await client.enqueue("orders", 1, connection=connection)
            await connection.rollback()
            await client.enqueue("orders", 2, connection=connection)
        assert [lease.payload for lease in await client.claim("orders", 10)] == [2]


def test_prepared_statements_can_be_left_out_for_a_pooler(dsn, queue, connect):
    from penstock import Client

    with Client(dsn, max_size=1, prepare_threshold=None) as client:
        for n in range(10):
            client.enqueue("orders", n)
        found = client._connections._opened().getconn()
        assert found.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
        client._connections._opened().putconn(found)
