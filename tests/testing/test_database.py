"""`database`: one for each test, gone in the end."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import App, AsyncClient, Client
from penstock.db.embedded import EmbeddedPostgres
from penstock.testing import database, drain, drain_async


def databases(server: str) -> set[str]:
    with psycopg.connect(server) as connection:
        return {row[0] for row in connection.execute("select datname from pg_database")}


def test_each_is_new_and_gone_in_the_end(server: EmbeddedPostgres) -> None:
    with database(server.dsn) as first, database(server.dsn) as second:
        assert first != second
        with Client(first) as one, Client(second) as two:
            one.create_queue("emails")
            assert two.queues() == []
        names = {str(conninfo_to_dict(dsn)["dbname"]) for dsn in (first, second)}
        assert names <= databases(server.dsn)
    assert not names & databases(server.dsn)


def test_it_goes_with_a_test_that_fails_and_with_open_connections(server: EmbeddedPostgres) -> None:
    def fail() -> None:
        with database(server.dsn) as dsn:
            made.append(str(conninfo_to_dict(dsn)["dbname"]))
            lines.append(psycopg.connect(dsn))
            raise ZeroDivisionError

    made: list[str] = []
    lines: list[psycopg.Connection] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert made[0] not in databases(server.dsn)
    lines[0].close()


def test_without_a_server_it_is_an_embedded_one() -> None:
    with database() as dsn, Client(dsn) as client:
        client.create_queue("emails")
        client.enqueue("emails", 1)
        assert len(client.claim("emails")) == 1


def test_an_app_enqueues_its_tasks_there_until_the_end(server: EmbeddedPostgres, dsn: str) -> None:
    app = App(dsn)

    @app.task(queue="emails", keep_result=True)
    def task(number: int) -> int:
        return number

    for number in (1, 2):
        with database(server.dsn, app=app) as its, Client(its) as client:
            client.create_queue("emails")
            call = task.enqueue_sync(number)
            drain(app, client)
            assert call.result_sync(60) == number
    with Client(dsn) as client:
        client.create_queue("emails")
        task.enqueue_sync(3)
        assert client.stats("emails").ready == 1
    app.close_sync()


async def test_an_async_app_enqueues_its_tasks_there(server: EmbeddedPostgres) -> None:
    app = App("dbname=missing")

    @app.task(queue="emails", keep_result=True)
    async def task(number: int) -> int:
        return number

    with database(server.dsn, app=app) as its:
        async with AsyncClient(its, max_size=1) as client:
            await client.create_queue("emails")
            call = await task.enqueue(4)
            await drain_async(app, client)
            assert await call.result(60) == 4
        await app.close()
