"""The stored charts: complete, counted once, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from penstock.server.background import record_all_charts
from penstock.server.database import Database

Db = psycopg.Connection[Any]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def db(dsn: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def record(db: Db) -> int:
    """Record as if the last call had been in an earlier minute."""
    db.execute("update penstock.chart_progress set recorded_at = now() - interval '1 minute'")
    return int(db.execute("select penstock.record_charts()").fetchall()[0][0])


def totals(db: Db, queue: str | None = "orders", is_hour: bool = False) -> tuple[int, int, int]:
    """Done, failed and died in everything that was recorded."""
    query = """select coalesce(sum(done), 0), coalesce(sum(failed), 0), coalesce(sum(died), 0)
               from penstock.chart(%s, now() - interval '400 days', '1 hour', %s)"""
    done, failed, died = db.execute(query, [queue, is_hour]).fetchall()[0]
    return int(done), int(failed), int(died)


def finish(db: Db, count: int, queue: str = "orders") -> None:
    db.execute("select penstock.create_queue(%s, exist_ok => true)", [queue])
    db.execute("select penstock.enqueue(%s, '1') from generate_series(1, %s)", [queue, count])
    db.execute(
        "select penstock.ack(id, token) from penstock.claim(%s, %s, lease_seconds => 60)",
        [queue, count],
    )


def test_what_ends_is_counted_once_by_its_minute(db: Db) -> None:
    finish(db, 7)
    db.execute("select penstock.enqueue('orders', '2') from generate_series(1, 3)")
    (lease,) = db.execute("select id, token from penstock.claim('orders')").fetchall()
    db.execute("select penstock.reject(%s, %s, 'no card')", lease)
    assert record(db) > 0
    assert record(db) > 0  # the depths of another minute, and nothing else
    assert totals(db) == (7, 1, 1)
    assert totals(db, None) == (7, 1, 1)
    rows = db.execute(
        "select ready, leased, dead, estimated from penstock.chart('orders', now() - interval "
        "'1 hour', '1 hour', false) where ready is not null"
    ).fetchall()
    assert rows[0] == (2, 0, 1, False)


def test_it_does_its_work_once_a_minute(db: Db) -> None:
    finish(db, 2)
    assert record(db) > 0
    assert db.execute("select penstock.record_charts()").fetchall() == [(0,)]


def test_two_servers_count_nothing_twice(db: Db, connect: Callable[..., Db]) -> None:
    finish(db, 5)
    first, second = connect(autocommit=False), connect()
    first.execute("select penstock.record_charts()")
    assert second.execute("select penstock.record_charts()").fetchall() == [(0,)]
    first.commit()
    record(second)
    assert totals(db) == (5, 0, 0)


def test_a_call_that_is_rolled_back_counts_nothing(db: Db, connect: Callable[..., Db]) -> None:
    finish(db, 5)
    gone = connect(autocommit=False)
    gone.execute("select penstock.record_charts()")
    gone.rollback()
    record(db)
    assert totals(db) == (5, 0, 0)


def test_a_transaction_that_was_open_is_counted_when_it_ends(
    db: Db, connect: Callable[..., Db]
) -> None:
    finish(db, 1)
    db.execute("select penstock.enqueue('orders', '1') from generate_series(1, 4)")
    slow = connect(autocommit=False)
    slow.execute("select penstock.ack(id, token) from penstock.claim('orders', 3)")
    finish(db, 1)  # a later transaction that ends earlier
    record(db)
    assert totals(db) == (2, 0, 0)
    slow.commit()
    record(db)
    assert totals(db) == (5, 0, 0)
    record(db)
    assert totals(db) == (5, 0, 0)


def test_the_own_transaction_is_counted_next_time(db: Db, connect: Callable[..., Db]) -> None:
    own = connect(autocommit=False)
    finish(own, 3)
    own.execute("select penstock.record_charts()")
    own.execute("select penstock.enqueue('orders', '1')")
    own.execute("select penstock.ack(id, token) from penstock.claim('orders')")
    own.commit()
    record(db)
    assert totals(db) == (4, 0, 0)


async def record_all(dsn: str) -> None:
    """As the server does once a minute."""
    database = Database(dsn, 1)
    await database.open()
    await record_all_charts(database)
    await database.close()


def is_behind(db: Db) -> bool:
    return bool(db.execute("select is_behind from penstock.chart_progress").fetchall()[0][0])


def test_a_gap_is_filled_from_history_in_pieces_by_the_minute(db: Db, dsn: str) -> None:
    finish(db, 1)
    # Transactions of 40,000 messages each, from the hours without a recorder.
    for hours in (50, 5, 3):
        db.execute(
            "insert into penstock.history_log (slot, id, queue, state, enqueued_at, "
            "first_claimed_at, last_claimed_at, finished_at, attempts, max_attempts, priority, "
            "payload_bytes_count, headers_bytes_count) select 0, -n, 'orders', 'done', t.at, "
            "t.at + interval '2 s', t.at + interval '2 s', t.at + interval '3 s', 1, 5, 0, 1, 0 "
            "from (select now() - interval '1 hour' * %s as at) t, generate_series(1, 40000) n",
            [hours],
        )
    record(db)
    assert is_behind(db)
    asyncio.run(record_all(dsn))
    assert not is_behind(db)
    hour_of = "date_bin('1 hour', now() - interval '1 hour' * %s + interval '3 s', '2000-01-01Z')"
    for hours in (50, 5, 3):
        query = f"""select at = {hour_of}, done, waits, runs from penstock.chart('orders',
                    now() - interval '3 days', '1 hour', true) where done = 40000
                    and at = {hour_of}"""
        ((at_its_hour, done, waits, runs),) = db.execute(query, [hours, hours]).fetchall()
        assert (at_its_hour, done) == (True, 40000)
        assert waits == pytest.approx([2, 2, 2], rel=0.09)
        assert runs == pytest.approx([1, 1, 1], rel=0.09)
    assert totals(db) == (80001, 0, 0)  # minutes are kept for a day or more


def test_hours_add_their_minutes_up_and_take_late_ones(db: Db) -> None:
    finish(db, 6)
    record(db)
    later = """select penstock._add_up_hours(hours_until, now() + interval '70 minutes')
               from penstock.chart_progress"""
    until = db.execute(later).fetchall()[0][0]
    assert until > datetime.now(UTC)
    assert totals(db, is_hour=True) == (6, 0, 0)
    db.execute("update penstock.chart_progress set hours_until = %s", [until])
    finish(db, 2)
    record(db)
    assert totals(db, is_hour=True) == (8, 0, 0)
    assert totals(db) == (8, 0, 0)


def test_a_copy_of_the_database_counts_from_now_on(db: Db) -> None:
    finish(db, 3)
    record(db)
    db.execute("update penstock.chart_progress set database = 'another', snapshot = '1:1:'")
    record(db)
    finish(db, 2)
    record(db)
    assert totals(db) == (5, 0, 0)


def test_queues_without_history_get_depths_and_the_work_that_workers_report(db: Db) -> None:
    db.execute("""select penstock.create_queue('quick', '{"keep_history": 0}')""")
    db.execute("select penstock.enqueue('quick', '1') from generate_series(1, 9)")
    started = datetime.now(UTC)

    def report(done: Any, failed: Any, since: datetime = started) -> None:
        queues = {"quick": {"done": done, "failed": failed}, "none": {"done": 5, "failed": 0}}
        db.execute(
            "select penstock.beat('w', 'running', %s, %s)", [since, Jsonb({"queues": queues})]
        )

    report(10, 2)
    record(db)
    report(25, 2)
    record(db)
    report("many", None)
    record(db)
    assert totals(db, "quick") == (25, 2, 0)
    report(4, 0, started + MINUTE)  # the worker was started again
    record(db)
    assert totals(db, "quick") == (29, 2, 0)
    ready = "select max(ready) from penstock.chart('quick', now() - interval '1 h', '1 h', false)"
    assert db.execute(ready).fetchall() == [(9,)]


def test_old_points_are_truncated_one_period_ahead(db: Db, connect: Callable[..., Db]) -> None:
    finish(db, 1)
    record(db)
    slot = "select penstock._chart_slot(false, now() + interval '12 hours')"
    next_slot = db.execute(slot).fetchall()[0][0]
    insert = """insert into penstock.chart_point (slot, queue_id, is_hour, at)
                values (%s, 1, false, now() - interval '36 hours')"""
    count = f"select count(*) from penstock.chart_point_{next_slot}"
    db.execute(insert, [next_slot])
    reader = connect(autocommit=False)
    reader.execute(count)
    db.execute("update penstock.chart_progress set cleared = '{-1, -1}'")
    record(db)
    assert db.execute(count).fetchall() == [(1,)]  # a reader holds it
    reader.rollback()
    record(db)
    assert db.execute(count).fetchall() == [(0,)]
    db.execute(insert, [next_slot])
    record(db)
    assert db.execute(count).fetchall() == [(1,)]  # once in a period
    assert totals(db) == (1, 0, 0)


@pytest.mark.parametrize("milliseconds", [0.3, 1, 1.5, 40, 999, 61_000, 86_400_000])
def test_a_bucket_is_near_its_durations(db: Db, milliseconds: float) -> None:
    query = "select penstock._bucket_seconds(penstock._duration_bucket(make_interval(secs => %s)))"
    seconds = db.execute(query, [milliseconds / 1000]).fetchall()[0][0]
    assert seconds == pytest.approx(milliseconds / 1000, rel=0.095, abs=0.0005)


def test_maintenance_records_too(db: Db) -> None:
    finish(db, 2)
    ((done,),) = db.execute("select penstock.maintain()").fetchall()
    assert done["chart_points_recorded"] > 0
    assert totals(db) == (2, 0, 0)
