"""SQLAlchemy's async sessions, by the one-liner of docs/reference/python.md."""

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import AsyncClient
from penstock.errors import InvalidValueError


async def test_only_what_the_session_committed_appears(queue, dsn, sqlalchemy_url):
    engine = create_async_engine(sqlalchemy_url, poolclass=NullPool)
    async with AsyncClient(dsn) as client, AsyncSession(engine) as session:
        await client.enqueue("orders", 1, connection=session)
        await session.rollback()
        await client.enqueue("orders", 2, connection=session)
        assert await client.claim("orders", 10) == []
        await session.commit()
        assert [lease.payload for lease in await client.claim("orders", 10)] == [2]
    await engine.dispose()


async def test_a_connection_of_an_engine_does_as_well(queue, dsn, sqlalchemy_url):
    engine = create_async_engine(sqlalchemy_url, poolclass=NullPool)
    async with AsyncClient(dsn) as client, engine.connect() as connection:
        await client.enqueue("orders", 1, connection=connection)
        await connection.rollback()
        await client.enqueue_many("orders", range(2, 5), chunk_size=1, connection=connection)
        assert await client.claim("orders", 10) == []
        await connection.commit()
        assert [lease.payload for lease in await client.claim("orders", 10)] == [2, 3, 4]
    await engine.dispose()


async def test_a_synchronous_session_is_refused(queue, dsn, sqlalchemy_url):
    engine = create_engine(sqlalchemy_url, poolclass=NullPool)
    async with AsyncClient(dsn) as client:
        with Session(engine) as session, pytest.raises(InvalidValueError, match="sqlalchemy"):
            await client.enqueue("orders", 1, connection=session)
