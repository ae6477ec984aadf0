"""Handlers that ack in the transaction of their SQLAlchemy session."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool
from tests.worker.conftest import until

from penstock import App, Client, Worker
from penstock.errors import InvalidValueError
from penstock.worker.delivery import Delivery


@pytest.fixture
def shipped(queue: Client, sqlalchemy_url):
    """A function that counts the rows that handlers have committed."""
    engine = create_engine(sqlalchemy_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("create table shipped (id bigint)"))

    def count() -> int:
        with engine.connect() as connection:
            return int(connection.execute(text("select count(*) from shipped")).scalar_one())

    yield count
    engine.dispose()


async def handled(dsn: str, queue: Client, handler) -> str:
    """The state of a message after its handler has run once."""
    app = App()
    app.handler("orders")(handler)
    queue.set_queue("orders", backoff={"kind": "constant", "base_seconds": 3600})
    id = queue.enqueue("orders", 1)
    async with Worker(app, dsn):
        await until(lambda: queue.message(id).state not in ("ready", "leased"), "it is settled")
    return queue.message(id).state


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handler_acks_in_the_transaction_of_its_session(
    dsn, queue, sqlalchemy_url, shipped, commits
):
    engine = create_async_engine(sqlalchemy_url, poolclass=NullPool)

    async def ship(message: Delivery) -> None:
        async with AsyncSession(engine) as session:
            await session.execute(text("insert into shipped values (1)"))
            await message.ack_with(session)
            if not commits:
                raise ValueError("out of stock")
            await session.commit()

    state = await handled(dsn, queue, ship)
    assert (state, shipped()) == (("done", 1) if commits else ("scheduled", 0))
    await engine.dispose()


@pytest.mark.parametrize("commits", [True, False])
async def test_a_handler_in_a_thread_acks_in_the_transaction_of_its_session(
    dsn, queue, sqlalchemy_url, shipped, commits
):
    engine = create_engine(sqlalchemy_url, poolclass=NullPool)

    def ship(message: Delivery) -> None:
        with Session(engine) as session:
            session.execute(text("insert into shipped values (1)"))
            message.ack_with_sync(session)
            if not commits:
                raise ValueError("out of stock")
            session.commit()

    state = await handled(dsn, queue, ship)
    assert (state, shipped()) == (("done", 1) if commits else ("scheduled", 0))
    engine.dispose()


async def test_a_handler_that_acks_with_no_connection_is_told_so(dsn, queue):
    refusals: list[InvalidValueError] = []

    async def ship(message: Delivery) -> None:
        with pytest.raises(InvalidValueError, match="connection is None") as caught:
            await message.ack_with(None)
        refusals.append(caught.value)
        with pytest.raises(InvalidValueError, match="connection is None") as caught:
            message.ack_with_sync(None)
        refusals.append(caught.value)

    assert await handled(dsn, queue, ship) == "done"
    assert [error.field for error in refusals] == ["connection", "connection"]
