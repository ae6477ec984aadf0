"""SQLAlchemy sessions, by the one-liners of docs/reference/python.md."""

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from penstock import Client, operations
from penstock.errors import InvalidValueError, QueueNotFoundError, from_database_error


@pytest.fixture
def engine(sqlalchemy_url):
    engine = sqlalchemy.create_engine(sqlalchemy_url, poolclass=NullPool)
    yield engine
    engine.dispose()


def test_a_message_appears_with_the_sessions_commit(queue, engine):
    with Session(engine) as session:
        id = queue.enqueue("orders", {"n": 1}, connection=session)
        assert queue.claim("orders") == []
        session.commit()
    [lease] = queue.claim("orders")
    assert (lease.id, lease.payload) == (id, {"n": 1})


def test_a_message_never_appears_after_the_sessions_rollback(queue, engine):
    with Session(engine) as session:
        session.execute(sqlalchemy.text("select 1"))
        queue.enqueue("orders", {"n": 1}, connection=session)
        session.rollback()
        session.commit()
    assert queue.claim("orders") == []


def test_many_messages_wait_for_the_sessions_commit(queue, engine):
    with Session(engine) as session:
        queue.enqueue_many("orders", range(25), chunk_size=10, connection=session)
        session.rollback()
        assert queue.stats("orders").ready == 0
        queue.enqueue_many("orders", range(25), chunk_size=10, connection=session)
        session.commit()
    assert queue.stats("orders").ready == 25


def test_a_connection_of_an_engine_does_as_well(queue, engine):
    with engine.connect() as connection:
        queue.enqueue("orders", 1, connection=connection)
        connection.rollback()
        queue.enqueue("orders", 2, connection=connection)
        assert queue.claim("orders") == []
        connection.commit()
    assert [lease.payload for lease in queue.claim("orders", 10)] == [2]


def test_a_scoped_session_and_the_driver_connection_do_as_well(queue, engine):
    scoped = scoped_session(sessionmaker(engine))
    queue.enqueue("orders", 1, connection=scoped)
    scoped.commit()
    driver = scoped.connection().connection.driver_connection
    queue.enqueue("orders", 2, connection=driver)
    scoped.commit()
    scoped.remove()
    assert [lease.payload for lease in queue.claim("orders", 10)] == [1, 2]


def test_a_client_may_live_on_a_session_over_several_transactions(queue, engine):
    with Session(engine) as session:
        bound = Client(connection=session)
        bound.enqueue("orders", 1)
        session.rollback()
        bound.enqueue("orders", 2)
        session.commit()
        bound.enqueue("orders", 3)
        session.commit()
    assert [lease.payload for lease in queue.claim("orders", 10)] == [2, 3]


def test_what_cannot_be_used_is_refused_by_its_name(queue, engine, sqlalchemy_url):
    with pytest.raises(InvalidValueError, match="Engine"):
        queue.enqueue("orders", 1, connection=engine)
    with pytest.raises(InvalidValueError, match="AsyncSession"):
        queue.enqueue("orders", 1, connection=AsyncSession(create_async_engine(sqlalchemy_url)))


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
