"""Messages are part of the transactions of Django, on Django's own connection."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from psycopg.conninfo import conninfo_to_dict

import django
from orders.models import Order
from orders.tasks import pack, send_receipt
from penstock import Client, operations
from penstock.django import async_client, client
from penstock.django.database import dsn
from penstock.errors import InvalidValueError, QueueNotFoundError, from_database_error


@pytest.fixture(autouse=True)
def in_project(project: str) -> None:
    """Every test here uses the project."""


def test_a_task_is_enqueued_with_the_end_of_the_atomic_block(queue: Client) -> None:
    with transaction.atomic():
        order = Order.objects.create(email="a@example.com", item="lamp", total=1)
        handle = send_receipt.enqueue_sync(order.pk, Decimal("1.50"))
        assert queue.claim("emails") == []
    [lease] = queue.claim("emails")
    assert (lease.id, lease.payload) == (handle.id, {"order_id": order.pk, "total": "1.50"})


def test_a_task_is_never_enqueued_if_the_atomic_block_fails(queue: Client) -> None:
    def purchase() -> None:
        send_receipt.enqueue_sync(1, Decimal(1))
        client().enqueue_many("emails", range(5), chunk_size=2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        purchase()
    assert queue.claim("emails") == []


def test_a_savepoint_takes_its_tasks_with_it(queue: Client) -> None:
    with transaction.atomic():
        kept = pack.enqueue_sync(1)
        with transaction.atomic():
            pack.enqueue_sync(2)
            transaction.set_rollback(True)
    assert [lease.id for lease in queue.claim("orders", 10)] == [kept.id]


async def test_async_code_enqueues_in_the_transaction_of_the_orms_thread(queue: Client) -> None:
    handle = await pack.enqueue(1)
    await async_client().enqueue("emails", {"n": 1})
    [lease] = await asyncio.to_thread(queue.claim, "orders")
    assert lease.id == handle.id

    def begin() -> None:
        transaction.set_autocommit(False)

    def end() -> None:
        transaction.rollback()
        transaction.set_autocommit(True)

    await sync_to_async(begin)()
    await pack.enqueue(2)
    await sync_to_async(end)()
    assert await asyncio.to_thread(queue.claim, "orders") == []


async def test_enqueue_sync_in_async_code_is_refused_as_the_orm_is() -> None:
    from django.core.exceptions import SynchronousOnlyOperation

    with pytest.raises(SynchronousOnlyOperation):
        pack.enqueue_sync(1)


def test_an_enqueue_in_a_failed_transaction_is_refused() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            pack.enqueue_sync(1)


def test_a_claim_reads_payload_and_times_as_other_connections_do(queue: Client) -> None:
    connections.settings["default"]["TIME_ZONE"] = "America/Lima"
    try:
        connection.close()
        enqueued_at = queue.message(queue.enqueue("emails", {"n": 1}, headers={"h": 1})).enqueued_at
        with transaction.atomic():
            [lease] = client().claim("emails")
            client().ack(lease)
    finally:
        connections.settings["default"]["TIME_ZONE"] = None
    assert (lease.payload, lease.headers) == ({"n": 1}, {"h": 1})
    assert lease.enqueued_at == enqueued_at
    assert queue.message(lease.id).state == "done"


def test_a_connection_that_django_has_closed_is_opened_again(queue: Client) -> None:
    connection.ensure_connection()
    connection.close()
    pack.enqueue_sync(1)
    assert len(queue.claim("orders")) == 1


def test_a_client_without_this_app_refuses_a_connection_that_is_closed(queue: Client) -> None:
    connection.ensure_connection()
    connection.close()
    with pytest.raises(InvalidValueError, match="ensure_connection"):
        queue.enqueue("orders", {"n": 1}, connection=connection.connection)
    with pytest.raises(InvalidValueError, match="connection is None"):
        Client(connection=connection.connection)


def test_a_command_runs_on_djangos_cursor(queue: Client) -> None:
    command: Any = operations.enqueue("orders", {"n": 2})
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(command.sql, command.params)
        id = command.decode(cursor.fetchall())
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 2})


def test_an_error_behind_django_is_still_recognised() -> None:
    command: Any = operations.enqueue("absent", 1)
    with (
        pytest.raises(django.db.Error) as caught,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(command.sql, command.params)
    assert isinstance(from_database_error(caught.value), QueueNotFoundError)


def test_the_dsn_has_what_databases_says(project: str) -> None:
    options = connections.settings["default"]["OPTIONS"]
    options |= {"assume_role": "shop keeper", "sslmode": "prefer", "application_name": "shop"}
    try:
        found = conninfo_to_dict(dsn())
    finally:
        options.clear()
    assert found["dbname"] == conninfo_to_dict(project)["dbname"]
    assert (found["sslmode"], found["application_name"]) == ("prefer", "shop")
    assert found["options"] == "-c role=shop\\ keeper"
