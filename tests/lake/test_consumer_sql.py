"""What Spark's claims rest on, in SQL alone: the same slice again, fences, acks, release."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.conftest import Connect
from tests.tasks.batches_in_sql import counts, make, value

from penstock.sql.expand import Expander


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    connection = connect()
    connection.execute("select penstock.create_queue('orders')")
    return connection


def enqueue(db: psycopg.Connection[Any], count: int, queue: str = "orders") -> None:
    db.execute(
        "select penstock.enqueue_many(%s, array(select to_jsonb(n) from generate_series(1, %s) n))",
        [queue, count],
    )


def attach(db: psycopg.Connection[Any]) -> int:
    row = db.execute("select generation from penstock.spark_attach('etl')").fetchone()
    assert row is not None
    return int(row[0])


def plan(db: psycopg.Connection[Any], generation: int, tick: int, *wanted: int) -> None:
    queues = ["orders"] * len(wanted)
    db.execute(
        "select penstock.spark_plan('etl', %s, %s, %s, %s)",
        [generation, tick, queues, list(wanted)],
    )


def claim(db: psycopg.Connection[Any], generation: int, tick: int, slice: int) -> list[int]:
    rows = db.execute(
        "select id from penstock.spark_claim('etl', %s, %s, %s)", [generation, tick, slice]
    ).fetchall()
    return sorted(id for (id,) in rows)


def settle(db: psycopg.Connection[Any]) -> None:
    for tick, slice in db.execute("select * from penstock.spark_unsettled('etl')").fetchall():
        db.execute("select penstock.spark_settle('etl', %s, %s)", [tick, slice])


def states(db: psycopg.Connection[Any]) -> dict[str, int]:
    query = (
        "select state, count(*) from (select state from penstock.messages"
        " union all select state from penstock.history) m group by 1"
    )
    return dict(db.execute(query).fetchall())


def test_a_slice_that_is_read_again_has_the_same_messages(db: Any) -> None:
    enqueue(db, 100)
    first = attach(db)
    plan(db, first, 1, 30, 30)
    one, two = claim(db, first, 1, 0), claim(db, first, 1, 1)
    assert len(one) == len(two) == 30
    assert not set(one) & set(two)
    second = attach(db)
    plan(db, second, 1, 99)
    assert claim(db, second, 1, 0) == one
    assert claim(db, second, 1, 1) == two


@pytest.mark.parametrize("call", ["spark_ack('etl', %s, 1)", "spark_seen('etl', %s)"])
def test_an_ack_and_a_sign_of_life_do_not_deadlock(db: Any, connect: Connect, call: str) -> None:
    run, other, watch = attach(db), connect(), connect()
    blocked = "select wait_event_type from pg_stat_activity where pid = %s"
    with ThreadPoolExecutor(1) as pool:
        with db.transaction():
            # It has the row shared, as another ack had before it updated the row.
            db.execute("select penstock._spark_check('etl', %s)", [run])
            ack = pool.submit(other.execute, f"select penstock.{call}", [run])
            while watch.execute(blocked, [other.info.backend_pid]).fetchone() != ("Lock",):
                assert not ack.done()
            db.execute("select penstock.spark_ack('etl', %s, 1)", [run])
        ack.result()


def test_a_run_that_was_taken_over_can_do_nothing(db: Any) -> None:
    enqueue(db, 10)
    zombie = attach(db)
    plan(db, zombie, 1, 5, 5)
    attach(db)
    for call in (
        "select * from penstock.spark_claim('etl', %s, 1, 0)",
        "select penstock.spark_plan('etl', %s, 2, '{orders}', '{1}')",
        "select penstock.spark_ack('etl', %s, 1)",
        "select penstock.spark_seen('etl', %s)",
    ):
        with pytest.raises(psycopg.Error, match="taken over by another run"):
            db.execute(call, [zombie])
    assert states(db) == {"ready": 10}


def test_a_run_begins_only_when_the_tasks_of_the_last_one_are_through(
    db: Any, connect: Connect
) -> None:
    enqueue(db, 10)
    generation = attach(db)
    plan(db, generation, 1, 10)
    task = connect(autocommit=False)
    claim(task, generation, 1, 0)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        db.execute("set lock_timeout = '50ms'; select * from penstock.spark_attach('etl')")
    task.commit()
    assert attach(db) == generation + 1


def test_acked_messages_are_in_history_once(db: Any) -> None:
    enqueue(db, 50)
    generation = attach(db)
    plan(db, generation, 1, 20, 20)
    ids = claim(db, generation, 1, 0) + claim(db, generation, 1, 1)
    settle(db)
    assert states(db) == {"ready": 10, "leased": 40}
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    settle(db)
    settle(db)
    assert states(db) == {"ready": 10, "done": 40}
    done = db.execute("select id, worker from penstock.history").fetchall()
    assert sorted(done) == sorted((id, "spark/etl") for id in ids)


def test_a_batch_whose_note_was_lost_is_read_from_history(db: Any) -> None:
    enqueue(db, 10)
    generation = attach(db)
    plan(db, generation, 1, 4, 4)
    one, two = claim(db, generation, 1, 0), claim(db, generation, 1, 1)
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    settle(db)
    assert claim(db, attach(db), 1, 0) == one
    assert claim(db, generation + 1, 1, 1) == two


def test_without_history_a_batch_that_was_acked_cannot_be_read_again(db: Any) -> None:
    db.execute("select penstock.set_queue('orders', '{\"keep_history\": 0}')")
    enqueue(db, 10)
    generation = attach(db)
    plan(db, generation, 1, 10)
    claim(db, generation, 1, 0)
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    settle(db)
    assert states(db) == {}
    with pytest.raises(psycopg.Error, match="keeps no history"):
        claim(db, generation, 1, 0)


def test_release_gives_back_what_was_not_acked_without_burning_an_attempt(db: Any) -> None:
    enqueue(db, 30)
    generation = attach(db)
    plan(db, generation, 1, 10)
    claim(db, generation, 1, 0)
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    plan(db, generation, 2, 10)
    claim(db, generation, 2, 0)
    assert db.execute("select held from penstock.spark_consumers").fetchone() == (20,)
    assert db.execute("select penstock.spark_release('etl')").fetchone() == (10,)
    assert states(db) == {"ready": 20, "done": 10}
    assert db.execute("select max(attempt) from penstock.messages").fetchone() == (0,)
    assert db.execute("select count(*) from penstock.spark_consumers").fetchone() == (0,)
    with pytest.raises(psycopg.Error, match="allowed: the name of a consumer"):
        db.execute("select penstock.spark_release('etl')")


def test_the_lease_clock_does_not_touch_what_a_checkpoint_owns(db: Any) -> None:
    enqueue(db, 5)
    generation = attach(db)
    plan(db, generation, 1, 5)
    claim(db, generation, 1, 0)
    (soonest,) = db.execute(
        "select min(lease_until) > now() + interval '50 years' from penstock.messages"
    ).fetchone()
    assert soonest


def test_groups_keys_large_payloads_and_priorities_come_along(db: Any) -> None:
    for call in (
        "select penstock.enqueue('orders', '1', group_key => 'g')",
        "select penstock.enqueue('orders', '2', group_key => 'g')",
        "select penstock.enqueue('orders', '3', key => 'k', headers => '{\"a\": 1}')",
        "select penstock.enqueue('orders', to_jsonb(repeat('x', 5000)))",
        "select penstock.enqueue('orders', payload_bytes => decode(repeat('ab', 5000), 'hex'))",
        "select penstock.enqueue('orders', '4', priority => 9)",
    ):
        db.execute(call)
    generation = attach(db)
    plan(db, generation, 1, 100)
    rows = db.execute(
        "select payload, octet_length(payload_bytes), headers, key, group_key, priority"
        " from penstock.spark_claim('etl', %s, 1, 0)",
        [generation],
    ).fetchall()
    assert sorted(rows, key=str) == sorted(
        [
            ("1", None, None, None, "g", 0),
            ("3", None, '{"a": 1}', "k", None, 0),
            ('"' + "x" * 5000 + '"', None, None, None, None, 0),
            (None, 5000, None, None, None, 0),
            ("4", None, None, None, None, 9),
        ],
        key=str,
    )
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    settle(db)
    assert states(db) == {"done": 5, "ready": 1}
    plan(db, generation, 2, 100)
    assert len(claim(db, generation, 2, 0)) == 1


def test_a_slice_ends_where_its_payloads_are_more_than_a_task_should_hold(db: Any) -> None:
    db.execute(
        "select penstock.enqueue('orders', payload_bytes => convert_to(repeat(md5(random()::text),"
        " 1000), 'utf8')) from generate_series(1, 2100)"
    )
    generation = attach(db)
    plan(db, generation, 1, 2100)
    # Taken in pieces of 500 messages, here of 32 kB each: three are more than enough.
    assert len(claim(db, generation, 1, 0)) == 1500


def test_ready_counts_what_could_be_claimed(db: Any) -> None:
    enqueue(db, 7)
    db.execute("select penstock.enqueue('orders', '1', delay => '1 hour')")
    assert db.execute("select penstock.spark_ready('orders', 100)").fetchone() == (7,)
    assert db.execute("select penstock.spark_ready('orders', 5)").fetchone() == (5,)
    db.execute("select penstock.pause('orders')")
    assert db.execute("select penstock.spark_ready('orders', 100)").fetchone() == (0,)
    with pytest.raises(psycopg.Error, match="does not exist"):
        db.execute("select penstock.spark_ready('nothing', 5)")


def test_a_slice_that_is_read_again_while_its_messages_move_is_complete(
    connect: Connect, db: psycopg.Connection[Any]
) -> None:
    """The ring moves old leases to the overflow segment, which must not be read too early."""
    enqueue(db, 5)
    generation = attach(db)
    plan(db, generation, 1, 5)
    claimed = claim(db, generation, 1, 0)
    assert len(claimed) == 5
    query = Expander().text("select {token.segment(tokens[1])}::integer from penstock.spark_slice")
    ((slot,),) = db.execute(query).fetchall()
    mover = connect(autocommit=False)
    mover.execute(f"lock table penstock.leased_{slot} in access exclusive mode")
    reader = connect()
    waits = "select cardinality(pg_blocking_pids(%s))"
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(claim, reader, generation, 1, 0)
        while db.execute(waits, [reader.info.backend_pid]).fetchone() == (0,):
            assert not again.done()
        mover.execute("select penstock._clear_oldest(%s)", [slot])
        mover.commit()
        assert again.result(timeout=30) == claimed
    assert db.execute(f"select count(*) from penstock.leased_{slot}").fetchone() == (0,)


def test_only_members_of_batches_are_settled_one_by_one(db: Any) -> None:
    db.execute("select penstock.create_queue('after')")
    db.execute("set track_functions = 'all'")
    batch, members = make(db, 3, queue="orders", seal=False)
    enqueue(db, 20)
    generation = attach(db)
    plan(db, generation, 1, 100)
    assert len(claim(db, generation, 1, 0)) == 23
    db.execute("select penstock.spark_ack('etl', %s, 1)", [generation])
    calls = """select coalesce(pg_stat_get_xact_function_calls(
        'penstock._done(penstock.leased_0)'::regprocedure), 0)"""
    with db.transaction():
        settle(db)
        assert value(db, calls) == len(members)
    assert counts(db, batch) == {"total": 3, "pending": 0, "done": 3}
    assert states(db) == {"done": 23}
