"""Queues, claimed by a stream: acked when the sink has them, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import Connect

pytestmark = pytest.mark.xdist_group("spark")


def enqueue(connection: Any, queue: str, count: int) -> None:
    connection.execute(
        "select penstock.enqueue_many(%s, array(select jsonb_build_object('n', n)"
        " from generate_series(1, %s) n))",
        [queue, count],
    )


@pytest.fixture
def db(connect: Connect) -> Any:
    connection = connect()
    connection.execute("select penstock.create_queue('orders')")
    return connection


def states(db: Any) -> dict[str, int]:
    query = (
        "select state, count(*) from (select state from penstock.messages"
        " union all select state from penstock.history) m group by 1"
    )
    return dict(db.execute(query).fetchall())


def test_what_the_sink_has_is_acked(db: Any, land: Callable[..., list[Any]]) -> None:
    enqueue(db, "orders", 2500)
    rows = land(queue="orders", max_rows_per_batch="1000", rows_per_partition="300")
    assert sorted(row.payload for row in rows) == sorted(f'{{"n": {n}}}' for n in range(1, 2501))
    assert len({row.id for row in rows}) == 2500
    assert states(db) == {"done": 2500}
    (consumer,) = db.execute("select name, held from penstock.spark_consumers").fetchall()
    assert consumer[0].startswith("orders-")
    assert consumer[1] == 0
    enqueue(db, "orders", 10)
    assert len(land(queue="orders")) == 2510
    assert states(db) == {"done": 2510}
