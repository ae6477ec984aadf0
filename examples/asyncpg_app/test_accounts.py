"""A real PostgreSQL, and the worker's own code: pytest test_accounts.py"""

from __future__ import annotations

import asyncio
from uuid import UUID

import accounts
import asyncpg
import pytest

from penstock import AsyncClient
from penstock.testing import drain_async


def test_an_account_is_welcomed() -> None:
    async def main() -> tuple[UUID, bool | None, int]:
        async with (
            asyncpg.create_pool(accounts.DATABASE_URL, min_size=1, max_size=1) as pool,
            AsyncClient(accounts.DATABASE_URL) as client,
        ):
            await pool.execute(accounts.TABLES)
            await client.create_queue("emails", exist_ok=True)
            id = await accounts.sign_up(pool, "ada@example.com")
            [handled] = await drain_async(accounts.queue, client)
            assert handled.error is None
            welcomed = await pool.fetchval("select welcomed from accounts where id = $1", id)
            return id, welcomed, (await client.stats("emails")).scheduled

    assert asyncio.run(main())[1:] == (True, 1)


def test_an_account_that_exists_gets_no_second_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        async with (
            asyncpg.create_pool(accounts.DATABASE_URL, min_size=1, max_size=1) as pool,
            AsyncClient(accounts.DATABASE_URL) as client,
        ):
            await pool.execute(accounts.TABLES)
            await client.create_queue("emails", exist_ok=True)
            monkeypatch.setattr(accounts, "uuid4", lambda: UUID(int=1))
            await accounts.sign_up(pool, "ada@example.com")
            before = (await client.stats("emails")).ready
            with pytest.raises(asyncpg.UniqueViolationError):
                await accounts.sign_up(pool, "ada@example.com")
            return (await client.stats("emails")).ready - before

    assert asyncio.run(main()) == 0
