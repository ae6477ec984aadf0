"""An application with asyncpg: tasks are enqueued in its transactions.

penstock worker accounts:queue
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg

from penstock import App

DATABASE_URL = os.environ.get("DATABASE_URL", "postgresql:///shop")
TABLES = "create table if not exists accounts (id uuid primary key, email text, welcomed boolean)"

queue = App(DATABASE_URL)


@dataclass
class Welcome:
    account: UUID
    language: str = "en"


@queue.task(queue="emails", retry=5)
async def send_welcome(welcome: Welcome) -> str:
    connection = await asyncpg.connect(DATABASE_URL)
    try:
        await connection.execute(
            "update accounts set welcomed = true where id = $1", welcome.account
        )
    finally:
        await connection.close()
    return f"welcomed in {welcome.language}"


async def sign_up(pool: asyncpg.Pool, email: str, language: str = "en") -> UUID:
    """The account and its e-mail are committed as one."""
    id = uuid4()
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("insert into accounts values ($1, $2, false)", id, email)
        in_transaction = send_welcome.options(connection=connection)
        await in_transaction.enqueue(Welcome(id, language))
        # A second one a week later.
        await in_transaction.options(delay=timedelta(days=7)).enqueue(Welcome(id))
    return id
