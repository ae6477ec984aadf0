"""A FastAPI application that takes orders, and the tasks behind it.

uvicorn app:api                # serves the API
penstock worker app:queue      # runs the tasks
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, Field

from penstock import App, AsyncClient
from penstock.errors import ResultNotFoundError, TaskFailedError

DATABASE_URL = os.environ.get("DATABASE_URL", "dbname=shop")
QUEUES = ("emails", "orders")
TABLES = """
create table if not exists orders (
    id bigint generated always as identity primary key, email text not null, item text not null,
    receipt_sent_at timestamptz)
"""

queue = App(DATABASE_URL)
pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(DATABASE_URL, open=False)


class NewOrder(BaseModel):
    email: str = Field(min_length=3)
    item: str = Field(min_length=1, max_length=100)


class Price(BaseModel):
    """Pydantic models can be arguments and results of tasks."""

    item: str
    cents: int


@queue.task(queue="emails", retry=5, timeout=30)
async def send_receipt(order_id: int) -> None:
    async with pool.connection() as connection:
        await connection.execute(
            "update orders set receipt_sent_at = %s where id = %s and receipt_sent_at is null",
            [datetime.now(UTC), order_id],
        )


@queue.task(queue="orders", keep_result=600)
async def find_price(order: NewOrder) -> Price:
    return Price(item=order.item, cents=100 * len(order.item))


async def set_up() -> None:
    """The tables and queues. A real application does this when it is deployed."""
    async with pool.connection() as connection:
        await connection.execute(TABLES)
    async with AsyncClient(DATABASE_URL, max_size=1) as client:
        for name in QUEUES:
            await client.create_queue(name, exist_ok=True)


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    await pool.open()
    await set_up()
    yield
    await queue.close()
    await pool.close()


api = FastAPI(lifespan=lifespan)


async def transaction() -> AsyncIterator[AsyncConnection[Any]]:
    """One transaction for each request. It is committed if the request succeeds."""
    async with pool.connection() as connection:
        yield connection


Transaction = Annotated[AsyncConnection[Any], Depends(transaction)]


@api.post("/orders", status_code=201)
async def place_order(order: NewOrder, connection: Transaction) -> dict[str, int]:
    row = await (
        await connection.execute(
            "insert into orders (email, item) values (%s, %s) returning id",
            [order.email, order.item],
        )
    ).fetchone()
    assert row is not None
    # In the same transaction: no order without its receipt, and no receipt without its order.
    await send_receipt.options(connection=connection).enqueue(row[0])
    return {"id": row[0]}


@api.post("/prices", status_code=202)
async def ask_for_price(order: NewOrder) -> dict[str, int]:
    handle = await find_price.enqueue(order)
    return {"id": handle.id}


@api.get("/prices/{id}")
async def price(id: int, wait: float = 0) -> Price:
    try:
        return await find_price.handle(id).result(timeout=min(wait, 20))
    except TimeoutError:
        raise HTTPException(202, "not known yet") from None
    except (ResultNotFoundError, TaskFailedError) as error:
        raise HTTPException(404, str(error)) from None
