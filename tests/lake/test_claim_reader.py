"""A stream that claims, driven to every point at which a driver can die."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from tests.conftest import Connect
from tests.lake.conftest import Follow

from penstock.errors import ConfigurationError, ConsumerTakenOverError, QueueNotFoundError


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


def states(db: psycopg.Connection[Any]) -> dict[str, int]:
    query = (
        "select state, count(*) from (select state from penstock.messages"
        " union all select state from penstock.history) m group by 1"
    )
    return dict(db.execute(query).fetchall())


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_a_batch_is_acked_when_the_next_offset_is_asked_for(db: Any, follow: Follow) -> None:
    enqueue(db, 100)
    stream = follow(queue="orders", max_rows_per_batch="60", rows_per_partition="25")
    assert stream.plan()
    assert states(db) == {"ready": 100}
    assert len(stream.partitions()) == 3
    assert len(stream.read()) == 60
    assert states(db) == {"ready": 40, "leased": 60}
    stream.commit()
    assert len(stream.rest()) == 40
    assert states(db) == {"done": 100}


@pytest.mark.parametrize("moment", ["planned", "read", "committed"])
def test_a_driver_that_dies_loses_nothing_and_repeats_nothing(
    db: Any, follow: Follow, moment: str
) -> None:
    enqueue(db, 30)
    stream = follow(queue="orders", max_rows_per_batch="20")
    stream.plan()
    first = stream.read() if moment != "planned" else []
    if moment == "committed":
        stream.commit()
        kept = first
    stream.restart()
    if moment != "committed":
        again = stream.read()
        assert moment == "planned" or ids(again) == ids(first)
        stream.commit()
        kept = again
    kept = kept + stream.rest()
    assert len(set(ids(kept))) == len(kept) == 30
    assert states(db) == {"done": 30}


def test_an_offset_that_was_never_written_down_leaves_nothing_claimed(
    db: Any, follow: Follow
) -> None:
    enqueue(db, 10)
    stream = follow(queue="orders")
    stream.plan()
    stream.planned = None
    stream.restart()
    assert len(stream.rest()) == 10
    assert states(db) == {"done": 10}


def test_a_checkpoint_that_lost_its_last_note_gets_the_same_batch_again(
    db: Any, follow: Follow
) -> None:
    enqueue(db, 10)
    stream = follow(queue="orders", max_rows_per_batch="5")
    stream.plan()
    before = stream.committed
    rows = stream.read()
    lost = stream.planned
    stream.commit()
    stream.plan()
    stream.committed, stream.planned = before, lost
    stream.restart()
    assert ids(stream.read()) == ids(rows)
    stream.commit()
    assert len(stream.rest()) == 5
    assert states(db) == {"done": 10}


def test_a_second_run_of_a_checkpoint_fences_the_first_one_off(db: Any, follow: Follow) -> None:
    enqueue(db, 10)
    zombie = follow(queue="orders", max_rows_per_batch="5")
    zombie.plan()
    parts = zombie.partitions()
    heir = follow(queue="orders", max_rows_per_batch="5")
    heir.committed, heir.planned = zombie.committed, zombie.planned
    rows = heir.read()
    with pytest.raises(Exception, match="taken over by another run"):
        list(zombie.reader.read(parts[0]))
    zombie.commit()
    with pytest.raises(ConsumerTakenOverError, match="taken over by another run"):
        zombie.plan()
    heir.commit()
    assert len(rows + heir.rest()) == 10
    assert states(db) == {"done": 10}


def test_an_old_copy_of_a_checkpoint_is_refused(db: Any, follow: Follow) -> None:
    enqueue(db, 30)
    stream = follow(queue="orders", max_rows_per_batch="5")
    stream.next()
    copy = stream.committed
    stream.rest()
    stream.committed = copy
    stream.restart()
    with pytest.raises(ConfigurationError, match="an old copy"):
        stream.plan()


def test_a_new_checkpoint_under_the_same_name_goes_on_with_what_was_held(
    db: Any, follow: Follow
) -> None:
    enqueue(db, 10)
    lost = follow(queue="orders", consumer="etl", max_rows_per_batch="4")
    lost.next()
    lost.plan()
    held = ids(lost.read())
    stream = follow(queue="orders", consumer="etl", max_rows_per_batch="4")
    assert ids(stream.next()) == held
    assert len(stream.rest()) == 2
    assert states(db) == {"done": 10}


def test_a_checkpoint_of_another_database_is_refused(
    db: Any, follow: Follow, make_database: Any, template: str, connect: Connect
) -> None:
    enqueue(db, 1)
    stream = follow(queue="orders")
    stream.next()
    stream.options["dsn"] = make_database(template)
    connect(stream.options["dsn"]).execute("select penstock.create_queue('orders')")
    stream.restart()
    with pytest.raises(ConfigurationError, match="belongs to another database"):
        stream.plan()


def test_workers_and_a_stream_share_a_queue(db: Any, connect: Connect, follow: Follow) -> None:
    enqueue(db, 400)
    stream = follow(queue="orders", max_rows_per_batch="50", rows_per_partition="20")
    taken: list[int] = []

    def work() -> None:
        mine = connect()
        query = "select penstock.ack(id, token), id from penstock.claim('orders', 7)"
        while rows := mine.execute(query).fetchall():
            taken.extend(id for _, id in rows)

    worker = threading.Thread(target=work)
    worker.start()
    rows = stream.rest()
    worker.join()
    rows += stream.rest()
    assert len(rows) + len(taken) == 400
    assert len(set(ids(rows)) | set(taken)) == 400
    assert states(db) == {"done": 400}


def test_several_queues_and_services_are_claimed_together(
    db: Any, dsn: str, follow: Follow, make_database: Any, template: str, connect: Connect
) -> None:
    other_dsn = make_database(template)
    other = connect(other_dsn)
    for connection in (db, other):
        connection.execute("select penstock.create_queue('mail.in')")
        connection.execute("select penstock.create_queue('mailbox')")
        enqueue(connection, 3, "mailbox")
        enqueue(connection, 3, "mail.in")
    enqueue(db, 3)
    services = {"service": "eu,us", "dsn.eu": dsn, "dsn.us": other_dsn}
    stream = follow(queues="orders,mail.*", **services)
    rows = stream.rest()
    found = sorted((row["service"], row["queue"]) for row in rows)
    assert found == [("eu", "mail.in")] * 3 + [("eu", "orders")] * 3 + [("us", "mail.in")] * 3
    assert states(db) == {"done": 6, "ready": 3}


def test_available_now_ends_though_more_is_enqueued_all_the_time(db: Any, follow: Follow) -> None:
    enqueue(db, 50)
    stream = follow(queue="orders", max_rows_per_batch="20")
    stream.reader.prepareForTriggerAvailableNow()
    count = 0
    while stream.plan():
        count += len(stream.read())
        stream.commit()
        enqueue(db, 20)
    assert count == 50
    assert states(db)["done"] == 50


def test_a_queue_that_is_not_there_is_named(db: Any, follow: Follow) -> None:
    with pytest.raises(QueueNotFoundError, match="no queue that matches 'order'"):
        follow(queue="order").plan()


def test_a_paused_queue_gives_nothing(db: Any, follow: Follow) -> None:
    enqueue(db, 5)
    db.execute("select penstock.pause('orders')")
    stream = follow(queue="orders")
    assert not stream.plan()
    db.execute("select penstock.resume('orders')")
    assert len(stream.rest()) == 5
