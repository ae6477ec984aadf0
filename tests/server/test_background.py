"""The periodic work of a server: one piece of a cancel in a round, and errors stop nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import psycopg
import pytest

from penstock.server.background import Background
from penstock.server.database import Database

Db: TypeAlias = psycopg.Connection[Any]


@pytest.fixture
async def background(dsn: str) -> AsyncIterator[Background]:
    database = Database(dsn, 1)
    await database.open()
    background = Background(database)
    background._expire_at = float("inf")  # expiry calls maintain, which cancels members, too
    yield background
    await database.close()


@pytest.fixture
def cancelled(db: Db) -> Callable[[], int]:
    """A batch of 602 members, one of which was cancelled. The result counts the cancelled."""
    db.execute("select penstock.create_queue('orders', exist_ok => true)")
    [id] = db.execute("select penstock.create_batch()").fetchone() or [0]
    add = "select penstock.add_to_batch(%s, 'orders', array_fill('1'::jsonb, array[602]))"
    db.execute(add, [id])
    db.execute("select penstock.cancel_batch(%s, 1)", [id])

    def count() -> int:
        [found] = db.execute("select cancelled from penstock.get_batch(%s)", [id]).fetchone() or [0]
        return int(found)

    return count


async def test_a_round_cancels_one_piece_of_a_batch_and_the_next_follows_at_once(
    background: Background, cancelled: Callable[[], int]
) -> None:
    counts = []
    while await background.run_once() == 0:
        counts.append(cancelled())
    assert counts == [501, 602]


async def test_an_error_while_batches_are_cancelled_does_not_stop_the_other_work(
    background: Background, cancelled: Callable[[], int], db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("alter function penstock.continue_cancels rename to missing")
    assert await background.run_once() > 0
    assert "members of batches could not be cancelled" in caplog.text
    charts = db.execute("select recorded_at is not null from penstock.chart_progress").fetchone()
    assert charts == (True,)
    db.execute("alter function penstock.missing rename to continue_cancels")
    assert await background.run_once() == 0
    assert cancelled() == 501
