"""SQLAlchemy sessions, by the one-liners of docs/reference/python.md."""

import pytest
import sqlalchemy
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import operations
from penstock.errors import QueueNotFoundError, from_database_error


@pytest.fixture
def engine(sqlalchemy_url):
    engine = sqlalchemy.create_engine(sqlalchemy_url, poolclass=NullPool)
    yield engine
    engine.dispose()


def enqueue(queue, session, payload):
    return queue.enqueue(
        "orders", payload, connection=session.connection().connection.driver_connection
    )


def test_a_message_appears_with_the_sessions_commit(queue, engine):
    with Session(engine) as session:
        id = enqueue(queue, session, {"n": 1})
        assert queue.claim("orders") == []
        session.commit()
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 1})


def test_a_message_never_appears_after_the_sessions_rollback(queue, engine):
    with Session(engine) as session:
        session.execute(sqlalchemy.text("select 1"))
        enqueue(queue, session, {"n": 1})
        session.rollback()
        session.commit()
    assert queue.claim("orders") == []


def test_many_messages_wait_for_the_sessions_commit(queue, engine):
    with Session(engine) as session:
        connection = session.connection().connection.driver_connection
        queue.enqueue_many("orders", range(25), chunk_size=10, connection=connection)
        session.rollback()
        assert queue.stats("orders").ready == 0
        connection = session.connection().connection.driver_connection
        queue.enqueue_many("orders", range(25), chunk_size=10, connection=connection)
        session.commit()
    assert queue.stats("orders").ready == 25


def test_a_command_runs_on_the_session_itself(queue, engine):
    command = operations.enqueue("orders", {"n": 2}, key="k", delay=0)
    with Session(engine) as session:
        id = session.connection().exec_driver_sql(command.sql, command.params).scalar_one()
        session.commit()
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload, lease.key) == (id, {"n": 2}, "k")


def test_an_error_behind_sqlalchemy_is_still_recognised(queue, engine):
    command = operations.enqueue("absent", 1)
    with Session(engine) as session, pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
        session.connection().exec_driver_sql(command.sql, command.params)
    error = from_database_error(caught.value)
    assert isinstance(error, QueueNotFoundError)
    assert error.queue == "absent"
