"""What handlers decided is settled, and reported as the database has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from time import monotonic
from typing import Any

import psycopg
import pytest
from tests.held import RUN_OUT

from penstock import AsyncClient
from penstock.commands.write.workers import Want, claim_rows
from penstock.db.reconnecting import ReconnectingConnection
from penstock.worker.delivery import Delivery
from penstock.worker.settler import Settler


class _Runner:
    """What a delivery needs to know of its runner."""

    queue = "work"

    def on_settled(self) -> None:
        pass

    def forget(self, deliveries: Iterable[Delivery]) -> None:
        pass


async def test_of_two_leases_on_one_message_only_the_current_one_settles_it(
    dsn: str, client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_queue("work")
    messages = {await client.enqueue("work", number) for number in range(3)}
    runner: Any = _Runner()
    connection = ReconnectingConnection(dsn)
    try:
        settler = Settler(connection)
        deliveries = []
        for _ in range(2):
            rows = await connection.run(claim_rows(Want("work", 3, 60), "a worker"))
            deliveries.append([Delivery(runner, row, monotonic()) for row in rows])
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
                if len(deliveries) == 1:
                    await other.execute(RUN_OUT)
        caplog.set_level(logging.WARNING)
        running = asyncio.create_task(settler.run())
        for pair in zip(*deliveries, strict=True):
            for delivery in pair:
                settler.settle(delivery, None)
        await settler.settled()
        running.cancel()
    finally:
        await connection.close()
    assert {delivery.id for delivery in deliveries[1]} == messages
    assert settler.settled_count == 3
    lost = [record.id for record in caplog.records if "was lost" in record.message]  # type: ignore[attr-defined]
    assert sorted(lost) == sorted(messages)
