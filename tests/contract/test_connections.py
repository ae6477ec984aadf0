"""Whose connection, whose transaction; and what happens when the database is not there."""

import psycopg
import pytest

from penstock import Client
from penstock.errors import (
    ConfigurationError,
    DatabaseUnavailableError,
    InvalidValueError,
    PenstockError,
    SchemaMissingError,
    SchemaNewerError,
)

pytestmark = pytest.mark.sql_only("it is about connections to PostgreSQL")
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


async def test_a_message_appears_with_the_callers_commit(client, own_connection, finish):
    await client.enqueue("orders", 1, connection=own_connection)
    assert await client.claim("orders") == []
    await finish(own_connection, "commit")
    assert len(await client.claim("orders")) == 1


async def test_a_message_never_appears_after_the_callers_rollback(client, own_connection, finish):
    await client.enqueue("orders", 1, connection=own_connection)
    await finish(own_connection, "rollback")
    assert await client.claim("orders") == []


@pytest.mark.parametrize("count", [3, 25])
async def test_many_messages_wait_for_the_callers_commit(client, own_connection, finish, count):
    await client.enqueue_many("orders", range(count), chunk_size=10, connection=own_connection)
    assert (await client.stats("orders")).ready == 0
    await finish(own_connection, "rollback")
    assert (await client.stats("orders")).ready == 0
    await client.enqueue_many("orders", range(count), chunk_size=10, connection=own_connection)
    await finish(own_connection, "commit")
    assert (await client.stats("orders")).ready == count


async def test_an_ack_counts_only_with_the_callers_commit(client, own_connection, finish):
    await client.enqueue("orders", 1)
    [lease] = await client.claim("orders")
    await client.ack(lease, connection=own_connection)
    await finish(own_connection, "rollback")
    await client.ack(lease, connection=own_connection)
    await finish(own_connection, "commit")
    assert (await client.message(lease.id)).state == "done"


async def test_a_refused_argument_leaves_the_callers_transaction_usable(
    client, own_connection, finish
):
    await client.enqueue("orders", 1, connection=own_connection)
    with pytest.raises(PenstockError):
        await client.enqueue("orders", float("nan"), connection=own_connection)
    await finish(own_connection, "commit")
    assert len(await client.claim("orders", 10)) == 1


async def test_a_stream_that_fails_leaves_the_callers_transaction_usable(
    client, own_connection, finish
):
    def broken():
        yield from range(25)
        raise ZeroDivisionError

    await client.enqueue("orders", "kept", connection=own_connection)
    with pytest.raises(ZeroDivisionError):
        await client.enqueue_many("orders", broken(), chunk_size=10, connection=own_connection)
    await finish(own_connection, "commit")
    assert [lease.payload for lease in await client.claim("orders", 100)] == ["kept"]


async def test_the_callers_row_factory_and_adapters_change_nothing(client, own_connection):
    own_connection.row_factory = psycopg.rows.dict_row
    psycopg.types.json.set_json_loads(lambda text: "changed", own_connection)
    await client.enqueue("orders", {"n": 1}, headers={"h": 1}, connection=own_connection)
    [lease] = await client.claim("orders", connection=own_connection)
    assert (lease.payload, lease.headers) == ({"n": 1}, {"h": 1})


async def test_a_client_may_live_on_one_connection_of_the_callers(
    client, open_client, own_connection, finish
):
    bound = await open_client(None, connection=own_connection)
    await bound.enqueue("orders", 1)
    assert (await bound.queue("orders")).name == "orders"
    await finish(own_connection, "rollback")
    assert await client.claim("orders") == []
    await bound.enqueue("orders", 2)
    await bound.close()
    await finish(own_connection, "commit")
    assert [lease.payload for lease in await client.claim("orders", 10)] == [2]


async def test_the_other_kind_of_connection_is_refused(client, adapter, dsn):
    wrong = psycopg.connect(dsn) if adapter == "async" else await _async_connection(dsn)
    try:
        with pytest.raises(InvalidValueError, match="psycopg"):
            await client.enqueue("orders", 1, connection=wrong)
    finally:
        closed = wrong.close()
        if closed is not None:
            await closed


VERBS = {
    "enqueue": lambda c: c.enqueue("orders", 1, connection=None),
    "enqueue_many": lambda c: c.enqueue_many("orders", range(5), chunk_size=2, connection=None),
    "claim": lambda c: c.claim("orders", connection=None),
    "ack": lambda c: c.ack((1, 1), connection=None),
    "ack_many": lambda c: c.ack_many([(1, 1)], connection=None),
    "nack": lambda c: c.nack((1, 1), connection=None),
    "cancel": lambda c: c.cancel(1, connection=None),
    "set_schedule": lambda c: c.set_schedule("s", connection=None),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_connection_that_is_none_is_refused_not_replaced_by_the_pool(client, verb):
    with pytest.raises(InvalidValueError, match="connection is None") as caught:
        await VERBS[verb](client)
    assert caught.value.field == "connection"
    assert (await client.stats("orders")).ready == 0


async def _async_connection(dsn):
    return await psycopg.AsyncConnection.connect(dsn)


async def test_a_database_that_is_not_there_says_so(open_client):
    with pytest.raises(DatabaseUnavailableError, match="refused") as caught:
        await open_client(NOWHERE)
    assert "PENSTOCK_DSN" in str(caught.value)
    assert caught.value.http_status == 503


async def test_a_database_of_another_kind_is_refused(open_client):
    with pytest.raises(ConfigurationError, match="mysql"):
        await open_client("mysql://localhost/x")


async def test_a_database_without_the_schema_says_what_to_run(open_client, empty_dsn):
    with pytest.raises(SchemaMissingError, match="penstock migrate up"):
        await open_client(empty_dsn)


async def test_the_callers_connection_without_the_schema_says_what_to_run(empty_dsn):
    with psycopg.connect(empty_dsn) as connection:
        with pytest.raises(SchemaMissingError, match="penstock migrate up"):
            Client(connection=connection).enqueue("orders", 1)
        connection.rollback()
        with pytest.raises(SchemaMissingError):
            Client(connection=connection).queues()
        connection.rollback()


async def test_a_schema_newer_than_the_client_is_left_alone(open_client, dsn, connect):
    connect().execute(
        "insert into penstock.migration (version, name, checksum) values (999, 'later', '')"
    )
    with pytest.raises(SchemaNewerError, match="999"):
        await open_client(dsn)


async def test_a_connection_that_the_server_closed_fails_no_call(client, connect):
    await client.enqueue("orders", 1)
    connect().execute(
        "select pg_terminate_backend(pid, 30000) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert len(await client.claim("orders")) == 1


async def test_a_database_that_goes_away_is_an_error_and_its_return_the_end_of_it(
    open_client, dsn, server
):
    client = await open_client(dsn, timeout=1.5)
    await client.create_queue("orders")
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid, 30000) from pg_stat_activity where datname = %s",
            [name],
        )
        for _ in range(2):
            with pytest.raises(DatabaseUnavailableError, match="not currently accepting"):
                await client.enqueue("orders", 1)
        admin.execute(f"alter database {name} allow_connections true")
    assert await client.enqueue("orders", 2)


async def test_more_callers_than_connections_is_an_error_that_says_so(open_client, adapter, dsn):
    client = await open_client(dsn, max_size=1, timeout=1)
    await client.create_queue("orders")

    async def needs_another():
        for n in range(3):
            yield n
        await client.stats("orders")

    def needs_another_too():
        yield from range(3)
        client.client.stats("orders")

    messages = needs_another() if adapter == "async" else needs_another_too()
    with pytest.raises(DatabaseUnavailableError, match="max_size"):
        await client.enqueue_many("orders", messages, chunk_size=1)


async def test_a_closed_client_says_that_it_is_closed(client):
    await client.close()
    with pytest.raises(PenstockError, match="closed"):
        await client.enqueue("orders", 1)
