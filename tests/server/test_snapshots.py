"""What a server has read is used for a while, but not beyond a change that it knows of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.commands.write import create_queue
from penstock.commands.write.keys import revoke_key
from penstock.errors import AuthenticationError
from penstock.server.auth.authentication import Authenticator
from penstock.server.database import Database
from penstock.server.monitoring.queue_metrics import QueueMetrics
from penstock.server.monitoring.snapshots import SnapshotCache


class Held(Database):
    """Holds back the next answer, once it is there, until `go_on` is set."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, 2)
        self.answered: asyncio.Event | None = None
        self.go_on = asyncio.Event()

    async def run(self, *arguments: Any) -> Any:
        answer = await super().run(*arguments)
        if self.answered is not None:
            self.answered, answered = None, self.answered
            answered.set()
            await self.go_on.wait()
        return answer

    @asynccontextmanager
    async def during(self, reading: Any) -> AsyncIterator[None]:
        """What happens in the block happens while an answer from before it is on its way."""
        self.answered = answered = asyncio.Event()
        task = asyncio.create_task(reading)
        await answered.wait()
        yield
        self.go_on.set()
        await task


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Held]:
    opened = Held(dsn)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_change_is_seen_though_a_look_was_under_way(database: Held) -> None:
    board = SnapshotCache(database)
    async with database.during(board.look("stats")):
        await database.run(create_queue("new"))
        board.forget()
    assert [stats.queue for stats in (await board.look("stats")).stats] == ["new"]


async def test_a_revoked_key_is_refused_though_the_keys_were_being_read(
    database: Held, make_key: Callable[..., str]
) -> None:
    auth = Authenticator(database, 10)
    token = f"Bearer {make_key('ada', 'read')}"
    async with database.during(auth.authenticate(token, "somewhere")):
        await database.run(revoke_key("ada"))
        auth.forget()
    with pytest.raises(AuthenticationError):
        await auth.authenticate(token, "somewhere")


async def test_who_asks_for_metrics_while_somebody_else_does_gets_them_too(database: Held) -> None:
    metrics = QueueMetrics(database)

    async def scrape() -> float:
        await metrics.look()
        up = next(iter(metrics.of(lambda queue: True).collect()))
        return float(up.samples[0].value)

    async with database.during(scrape()):
        second = asyncio.create_task(scrape())
        for _ in range(3):
            await asyncio.sleep(0)
    assert await second == 1
