"""SQLAlchemy's async sessions, by the one-liner of docs/reference/python.md."""

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from penstock import AsyncClient


async def enqueue(client, session, payload):
    raw = await (await session.connection()).get_raw_connection()
    return await client.enqueue("orders", payload, connection=raw.driver_connection)


async def test_only_what_the_session_committed_appears(queue, dsn, sqlalchemy_url):
    engine = create_async_engine(sqlalchemy_url, poolclass=NullPool)
    async with AsyncClient(dsn) as client, AsyncSession(engine) as session:
        await enqueue(client, session, 1)
        await session.rollback()
        await enqueue(client, session, 2)
        assert await client.claim("orders", 10) == []
        await session.commit()
        assert [lease.payload for lease in await client.claim("orders", 10)] == [2]
    await engine.dispose()
