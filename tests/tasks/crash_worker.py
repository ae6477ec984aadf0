"""A worker for the crash tests: it is killed at any moment. `python crash_worker.py DSN`."""

from __future__ import annotations

import asyncio
import sys

from psycopg_pool import AsyncConnectionPool

from penstock import App, Worker, current

DSN = sys.argv[1] if __name__ == "__main__" else None

app = App(DSN)
pool: AsyncConnectionPool


@app.task(queue="crash", retry=100, keep_result=True)
async def step(chain: int, number: int = 0) -> int:
    """Records its effect in the transaction of its ack."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("insert into effect values (%s, %s)", [chain, number])
        await current().ack_with(connection, result=chain)
    return chain


@app.task(queue="crash", retry=100)
async def member(number: int, seconds: float = 0) -> None:
    """Works for a while, so that even a few members last until the kills."""
    await asyncio.sleep(seconds)


@app.task(queue="crash", retry=100)
async def follow(event: str) -> None:
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("insert into fired values (%s)", [event])
        await current().ack_with(connection)


async def main() -> None:
    global pool
    assert DSN is not None
    async with AsyncConnectionPool(DSN, min_size=0, max_size=8, open=False) as opened:
        pool = opened
        await Worker(app, DSN, concurrency=64).run()


if __name__ == "__main__":
    asyncio.run(main())
