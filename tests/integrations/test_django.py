"""Django connections, by the one-liner of docs/reference/python.md."""

import django
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from penstock import Client, operations
from penstock.errors import InvalidValueError, QueueNotFoundError, from_database_error


@pytest.fixture(scope="module", autouse=True)
def configured():
    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True)
        django.setup()


@pytest.fixture
def connection(dsn):
    from django.db.backends.postgresql.base import DatabaseWrapper
    from django.db.utils import ConnectionHandler

    parts = conninfo_to_dict(dsn)
    handler = ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                "USER": parts.get("user", ""),
                "HOST": parts["host"],
            }
        }
    )
    connection = handler["default"]
    assert isinstance(connection, DatabaseWrapper)
    yield connection
    connection.close()


@pytest.fixture
def atomic(connection, monkeypatch):
    """`transaction.atomic`, on the connection of this test."""
    from django.db import transaction

    monkeypatch.setattr(transaction, "get_connection", lambda using=None: connection)
    return transaction.atomic


def test_a_message_appears_with_the_end_of_the_atomic_block(queue, connection, atomic):
    with atomic():
        id = queue.enqueue("orders", {"n": 1}, connection=connection.connection)
        assert queue.claim("orders") == []
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 1})


def test_a_message_never_appears_if_the_atomic_block_fails(queue, connection, atomic):
    def purchase():
        queue.enqueue("orders", {"n": 1}, connection=connection.connection)
        queue.enqueue_many("orders", range(5), chunk_size=2, connection=connection.connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), atomic():
        purchase()
    assert queue.claim("orders") == []


def test_many_messages_appear_with_the_end_of_the_atomic_block(queue, connection, atomic):
    with atomic():
        queue.enqueue_many("orders", range(5), chunk_size=2, connection=connection.connection)
        assert queue.stats("orders").ready == 0
    assert queue.stats("orders").ready == 5


def test_a_claim_on_djangos_connection_reads_payload_and_times_alike(queue, connection, atomic):
    connection.settings_dict["TIME_ZONE"] = "America/Lima"
    enqueued_at = queue.message(queue.enqueue("orders", {"n": 1}, headers={"h": 1})).enqueued_at
    with atomic():
        [lease] = queue.claim("orders", connection=connection.connection)
        queue.ack(lease, connection=connection.connection)
    assert (lease.payload, lease.headers) == ({"n": 1}, {"h": 1})
    assert lease.enqueued_at == enqueued_at
    assert queue.message(lease.id).state == "done"


def test_a_connection_that_django_has_closed_is_refused(queue, connection, atomic):
    connection.ensure_connection()
    connection.close()
    assert connection.connection is None
    with pytest.raises(InvalidValueError, match="ensure_connection"):
        queue.enqueue("orders", {"n": 1}, connection=connection.connection)
    with pytest.raises(InvalidValueError, match="connection is None"):
        Client(connection=connection.connection)
    assert queue.claim("orders") == []


def test_a_command_runs_on_djangos_cursor(queue, connection, atomic):
    command = operations.enqueue("orders", {"n": 2})
    with atomic(), connection.cursor() as cursor:
        cursor.execute(command.sql, command.params)
        id = command.decode(cursor.fetchall())
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 2})


def test_an_error_behind_django_is_still_recognised(connection, atomic):
    command = operations.enqueue("absent", 1)
    with pytest.raises(django.db.Error) as caught, atomic(), connection.cursor() as cursor:
        cursor.execute(command.sql, command.params)
    assert isinstance(from_database_error(caught.value), QueueNotFoundError)
