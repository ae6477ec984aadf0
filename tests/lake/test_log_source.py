"""History and attempts, read as a batch and followed as a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.conftest import Connect

pytestmark = pytest.mark.xdist_group("spark")


def finish(connection: psycopg.Connection[Any], queue: str, count: int) -> list[int]:
    """Enqueues, claims and acks so many messages; their ids."""
    connection.execute(
        "select penstock.enqueue_many(%s, array(select jsonb_build_object('n', n)"
        " from generate_series(1, %s) n))",
        [queue, count],
    )
    rows = connection.execute(
        "with c as materialized (select id, token from penstock.claim(%s, %s)) "
        "select penstock.ack_many(array_agg(id), array_agg(token)) from c",
        [queue, count],
    ).fetchall()
    return [id for (id,) in rows]


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    connection = connect()
    connection.execute("select penstock.create_queue('orders')")
    return connection


def test_a_batch_reads_all_of_history(db: Any, read: Callable[..., Any]) -> None:
    ids = finish(db, "orders", 2500)
    frame = read(table="history", rows_per_partition="400")
    rows = frame.collect()
    assert sorted(row.id for row in rows) == sorted(ids)
    assert frame.rdd.getNumPartitions() > 5
    first = min(rows, key=lambda row: row.id)
    assert (first.service, first.queue, first.state, first.payload) == (
        "local",
        "orders",
        "done",
        '{"n": 1}',
    )


def test_a_stream_delivers_what_was_committed_late(
    db: Any, connect: Connect, land: Callable[..., list[Any]]
) -> None:
    slow, rolled_back = connect(autocommit=False), connect(autocommit=False)
    late = finish(slow, "orders", 10)
    finish(rolled_back, "orders", 10)
    early = finish(db, "orders", 10)
    assert {row.id for row in land(table="history")} == set(early)
    slow.commit()
    rolled_back.rollback()
    more = finish(db, "orders", 5)
    rows = land(table="history")
    assert sorted(row.id for row in rows) == sorted(early + late + more)
