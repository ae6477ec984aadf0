"""An application with SQLAlchemy: tasks are enqueued through a Session or an AsyncSession.

penstock worker payments:queue
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from penstock import App, current

# postgresql+psycopg://... : psycopg 3 serves both sessions.
DATABASE_URL = os.environ.get("SQLALCHEMY_URL", "postgresql+psycopg:///shop")
engine = create_engine(DATABASE_URL, pool_pre_ping=True)
async_engine = create_async_engine(DATABASE_URL, pool_pre_ping=True)
QUEUE_URL = os.environ.get("DATABASE_URL", "dbname=shop")
queue = App(QUEUE_URL)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    total: Mapped[Decimal]
    paid_at: Mapped[datetime | None]
    shipped_at: Mapped[datetime | None]


@queue.task(queue="payments", retry=5)
def charge(order_id: int, total: Decimal) -> None:
    """The row, the next task and the ack are committed as one: none of them happens twice."""
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, order_id)
        order.paid_at = datetime.now(UTC)
        ship.options(connection=session).enqueue_sync(order_id)
        current().ack_with_sync(session)


@queue.task(queue="shipping", keep_result=True)
async def ship(order_id: int) -> datetime:
    shipped_at = datetime.now(UTC)
    async with AsyncSession(async_engine) as session, session.begin():
        order = await session.get_one(Order, order_id)
        order.shipped_at = shipped_at
    return shipped_at


def place_order(email: str, total: Decimal) -> int:
    """For code that is not async, such as Flask."""
    with Session(engine) as session, session.begin():
        order = Order(email=email, total=total)
        session.add(order)
        session.flush()
        charge.options(connection=session).enqueue_sync(order.id, total)
        return order.id


async def place_order_async(email: str, total: Decimal) -> int:
    """For async code."""
    async with AsyncSession(async_engine) as session, session.begin():
        order = Order(email=email, total=total)
        session.add(order)
        await session.flush()
        await charge.options(connection=session).enqueue(order.id, total)
        return order.id


def unpaid_orders() -> list[str]:
    with Session(engine) as session:
        return list(session.scalars(select(Order.email).where(Order.paid_at.is_(None))))
