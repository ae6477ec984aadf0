"""History and attempts, followed: nothing missed, nothing twice, with commits in any order."""

from __future__ import annotations

import random
import threading
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import VariantVal
from tests.conftest import Connect
from tests.lake.conftest import Follow
from tests.lake.following import batch

from penstock.errors import (
    ConfigurationError,
    DatabaseUnavailableError,
    SchemaMissingError,
    SchemaNewerError,
)
from penstock.lake.columns import source_schema
from penstock.spark.log_pages import Pages
from penstock.spark.options import Service, SourceOptions
from penstock.spark.partitions import Stretch
from penstock.spark.service_connection import Server
from penstock.spark.snapshot_diff import BEGINNING, END, Span
from penstock.sql.loader import load_query


def finish(db: psycopg.Connection[Any], count: int, queue: str = "orders") -> list[int]:
    """Enqueues, claims and acks so many messages; their ids."""
    db.execute(
        "select penstock.enqueue_many(%s, array(select jsonb_build_object('n', n)"
        " from generate_series(1, %s) n))",
        [queue, count],
    )
    rows = db.execute(
        "with c as materialized (select id, token from penstock.claim(%s, %s)) "
        "select penstock.ack_many(array_agg(id), array_agg(token)) from c",
        [queue, count],
    ).fetchall()
    assert len(rows) == count
    return sorted(id for (id,) in rows)


def cancel(db: psycopg.Connection[Any], count: int) -> list[int]:
    """Finishes exactly the messages that it enqueues, and returns their ids."""
    made = "select penstock.enqueue_many('orders', array_fill('1'::jsonb, array[%s])) as id"
    rows = db.execute(f"select id, penstock.cancel(id) from ({made}) m", [count]).fetchall()
    return [id for id, _ in rows]


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    connection = connect()
    connection.execute("select penstock.create_queue('orders')")
    return connection


@pytest.fixture
def history(dsn: str) -> dict[str, str]:
    return {"dsn": dsn, "table": "history"}


def test_a_batch_reads_everything_in_several_tasks(db: Any, history: Any) -> None:
    done = finish(db, 5000)
    rows = batch(**history, rows_per_partition="700")
    assert ids(rows) == done
    first = min(rows, key=lambda row: row["id"])
    assert (first["service"], first["state"], first["payload"]) == ("local", "done", '{"n": 1}')
    assert first["enqueued_at"] <= first["first_claimed_at"] <= first["finished_at"]
    assert (first["attempts"], first["payload_bytes"], first["payload_bytes_count"]) == (1, None, 8)


@pytest.mark.parametrize("table", ["history", "attempts"])
def test_a_page_walks_the_index_and_sorts_nothing(db: Any, dsn: str, table: str) -> None:
    options = SourceOptions.read({"dsn": dsn, "table": table})
    schema = to_arrow_schema(source_schema(options.table), timezone="UTC")
    stretch = Stretch(Span(low=3, high=2**40), BEGINNING, END, 1000)
    page = Pages(options, "local", schema, "true").query(stretch, BEGINNING, 100)
    with db.transaction():
        db.execute(load_query("spark/planner"))
        plan = db.execute(f"explain {page}").fetchall()
    assert "Merge Append" in str(plan)
    assert "Sort  " not in str(plan)


def test_the_driver_prepares_nothing_so_that_it_works_behind_a_pooler(db: Any, dsn: str) -> None:
    finish(db, 50)
    history = SourceOptions.read({"dsn": dsn, "table": "history"}).table
    with Server(Service("local", dsn)) as server:
        span = Span(low=3, high=server.snapshot().xmax)
        cuts, _ = server.cuts(history, span, "true", BEGINNING, END, 50, 5)
        assert [cut.count for cut in cuts] == list(range(5, 51, 5))
        assert server.rows("select name from pg_prepared_statements") == []


def test_what_commits_late_comes_with_the_next_batch(
    db: Any, connect: Connect, follow: Follow
) -> None:
    stream = follow(table="history")
    slow, undone = connect(autocommit=False), connect(autocommit=False)
    late = finish(slow, 10)
    finish(undone, 10)
    early = finish(db, 10)
    assert ids(stream.rest()) == early
    slow.commit()
    undone.rollback()
    more = finish(db, 5)
    assert ids(stream.rest()) == sorted(late + more)
    assert stream.rest() == []


def test_limits_cut_a_window_and_a_restart_goes_on_where_it_was(db: Any, follow: Follow) -> None:
    done = [id for _ in range(5) for id in finish(db, 100)]
    stream = follow(table="history", max_rows_per_batch="130", rows_per_partition="40")
    found: list[int] = []
    while stream.plan():
        assert len(stream.partitions()) == 4 if len(found) < 390 else 1
        read = ids(stream.read())
        assert len(read) <= 130
        stream.restart()
        assert ids(stream.read()) == read
        found += read
        stream.commit()
        done += finish(db, 10)
        if len(done) > 600:
            break
    found += ids(stream.rest())
    assert sorted(found) == sorted(done)


def test_the_same_offsets_give_the_same_rows_at_any_time(
    db: Any, connect: Connect, follow: Follow
) -> None:
    slow = connect(autocommit=False)
    late = finish(slow, 3)
    stream = follow(table="history")
    finish(db, 20)
    stream.next()
    slow.commit()
    finish(db, 20)
    stream.plan()
    before = ids(stream.read())
    assert set(late) < set(before)
    finish(db, 20)
    stream.restart()
    assert ids(stream.read()) == before


def test_nothing_new_is_no_batch(db: Any, follow: Follow) -> None:
    stream = follow(table="history")
    assert not stream.plan()
    finish(db, 1)
    assert len(stream.next()) == 1
    db.execute("create table elsewhere as select 1")
    assert not stream.plan()


def test_latest_begins_now_and_a_time_begins_there(db: Any, history: Any, follow: Follow) -> None:
    finish(db, 5)
    latest = follow(table="history", initial="latest")
    assert latest.rest() == []
    (moment,) = db.execute("select clock_timestamp()").fetchone()
    since = follow(table="history", initial=moment.isoformat())
    new = finish(db, 7)
    assert ids(latest.rest()) == new
    assert ids(since.rest()) == new
    assert ids(batch(**history, initial=moment.isoformat())) == new


def test_only_the_queues_and_columns_asked_for(db: Any, history: Any) -> None:
    db.execute("select penstock.create_queue('mail.in')")
    db.execute("select penstock.create_queue('mailbox')")
    mail = finish(db, 3, "mail.in")
    finish(db, 3, "mailbox")
    orders = finish(db, 3)
    assert ids(batch(**history, queues="mail.*")) == mail
    assert ids(batch(**history, queues="mail.*, orders")) == sorted(mail + orders)
    (row, *_) = batch(**history, queues="orders", columns="queue,id")
    assert list(row) == ["id", "queue"]


def test_attempts_are_followed_too(db: Any, dsn: str, follow: Follow) -> None:
    stream = follow(table="attempts")
    db.execute("select penstock.enqueue('orders', '1')")
    for _ in range(3):
        db.execute(
            "select penstock.nack(id, token, 'no luck', '0') from penstock.claim('orders', 1)"
        )
    rows = stream.rest()
    assert [(row["attempt"], row["error"]) for row in rows] == [(n, "no luck") for n in (1, 2, 3)]


def fail_two_messages_three_times(db: psycopg.Connection[Any]) -> None:
    """All of it in one transaction."""
    db.execute("select penstock.enqueue('orders', '1'), penstock.enqueue('orders', '2')")
    nack = "select penstock.nack(id, token, 'no', '0') from penstock.claim('orders', 2)"
    with db.transaction():
        for _ in range(3):
            db.execute(nack)


def test_two_attempts_of_a_message_in_one_transaction_stay_together(
    db: Any, follow: Follow
) -> None:
    fail_two_messages_three_times(db)
    stream = follow(table="attempts", max_rows_per_batch="2", rows_per_partition="1")
    counts = []
    while stream.plan():
        planned = sum(s.count for part in stream.partitions() for s in part.stretches)
        assert len(stream.read()) == planned
        counts.append(planned)
        stream.commit()
    assert counts == [3, 3]


def test_two_attempts_of_a_message_in_one_transaction_may_end_a_page(
    db: Any, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_two_messages_three_times(db)
    for rows in range(1, 7):
        monkeypatch.setattr("penstock.spark.log_pages.PAGE_ROWS", rows)
        attempts = [row["attempt"] for row in batch(dsn=dsn, table="attempts")]
        assert sorted(attempts) == [1, 1, 2, 2, 3, 3], f"pages of {rows}"


def test_bytes_and_large_payloads_arrive_whole(db: Any, history: Any) -> None:
    db.execute("select penstock.enqueue('orders', payload_bytes => '\\x00ff10')")
    db.execute("select penstock.enqueue('orders', to_jsonb(repeat('é', 100000)))")
    db.execute("select penstock.ack(id, token) from penstock.claim('orders', 2)")
    small, large = sorted(batch(**history), key=lambda row: row["id"])
    assert (small["payload"], small["payload_bytes"]) == (None, b"\x00\xff\x10")
    assert large["payload"] == '"' + "é" * 100_000 + '"'


def test_a_page_ends_where_memory_does_and_the_next_goes_on(db: Any, history: Any) -> None:
    db.execute(
        "select penstock.enqueue_many('orders', array(select to_jsonb(n || repeat('x', 200000))"
        " from generate_series(1, 270) n))"
    )
    db.execute("select penstock.ack(id, token) from penstock.claim('orders', 270)")
    rows = batch(**history)  # of 54 MB, which is more than a page
    assert [int(row["payload"].strip('"x')) for row in rows] == list(range(1, 271))


def test_the_service_may_be_all_that_is_asked_for(db: Any, history: Any, dsn: str) -> None:
    finish(db, 2)
    assert batch(**history, columns="service") == [{"service": "local"}] * 2
    db.execute("select penstock.enqueue('orders', '1')")
    assert batch(dsn=dsn, table="messages", columns="service") == [{"service": "local"}]


def test_a_payload_may_be_a_variant(db: Any, history: Any) -> None:
    db.execute("select penstock.enqueue('orders', '{\"amount\": 3.5}')")
    db.execute("select penstock.enqueue('orders', payload_bytes => '\\x01')")
    db.execute("select penstock.ack(id, token) from penstock.claim('orders', 2)")
    json, binary = sorted(batch(**history, payload="variant"), key=lambda row: row["id"])
    assert VariantVal(**json["payload"]).toPython() == {"amount": Decimal("3.5")}
    assert binary["payload"] is None


def test_several_services_are_one_stream(
    db: Any, make_database: Any, template: str, dsn: str, connect: Connect, follow: Follow
) -> None:
    other_dsn = make_database(template)
    other = connect(other_dsn)
    other.execute("select penstock.create_queue('orders')")
    options = {"service": "eu,us", "dsn.eu": dsn, "dsn.us": other_dsn, "table": "history"}
    stream = follow(**options, max_rows_per_batch="10")
    here, there = finish(db, 12), finish(other, 25)
    rows = stream.rest()
    assert ids([row for row in rows if row["service"] == "eu"]) == here
    assert ids([row for row in rows if row["service"] == "us"]) == there
    more = finish(other, 1)
    assert ids(stream.rest()) == more
    assert len(batch(**options)) == 38


def test_writers_with_rollbacks_savepoints_and_delays_lose_nothing(
    db: Any, connect: Connect, follow: Follow
) -> None:
    """The trial that `id > last` fails."""
    committed: list[int] = []
    over = threading.Event()

    def write(seed: int) -> None:
        chance = random.Random(seed)
        mine = connect(autocommit=False)
        for _ in range(25):
            kept = cancel(mine, chance.randint(1, 5))
            if chance.random() < 0.4:
                mine.execute("savepoint here")
                more = cancel(mine, 2)
                if chance.random() < 0.5:
                    mine.execute("rollback to savepoint here")
                else:
                    kept += more
            over.wait(chance.choice([0, 0, 0.001, 0.02]))
            if chance.random() < 0.2:
                mine.rollback()
            else:
                mine.commit()
                committed.extend(kept)

    writers = [threading.Thread(target=write, args=[seed]) for seed in range(6)]
    for writer in writers:
        writer.start()
    stream = follow(table="history", max_rows_per_batch="37", rows_per_partition="10")
    found: list[int] = []
    while any(writer.is_alive() for writer in writers):
        found += ids(stream.next())
    for writer in writers:
        writer.join()
    found += ids(stream.rest())
    assert sorted(found) == sorted(committed)


def test_a_long_transaction_does_not_make_every_batch_read_what_came_since(
    db: Any, connect: Connect, history: Any, follow: Follow
) -> None:
    slow = connect(autocommit=False)
    slow.execute("select pg_current_xact_id()")
    stream = follow(table="history")
    finish(db, 1000)
    stream.rest()
    finish(db, 1)
    stream.plan()
    (part,) = stream.partitions()
    ((stretch),) = part.stretches
    (scanned,) = db.execute(
        f"select count(*) from penstock.history_feed where {stretch.span.condition}"
    ).fetchone()
    assert scanned == 1


def test_a_checkpoint_of_another_database_is_refused(
    db: Any, make_database: Any, template: str, follow: Follow
) -> None:
    finish(db, 1)
    stream = follow(table="history")
    stream.next()
    stream.options["dsn"] = make_database(template)
    stream.restart()
    with pytest.raises(ConfigurationError, match="is now database"):
        stream.plan()


def test_a_checkpoint_from_the_future_is_refused(db: Any, follow: Follow) -> None:
    finish(db, 1)
    stream = follow(table="history")
    stream.next()
    stream.committed["services"]["local"]["seen"] = "900000000:900000000:"
    with pytest.raises(ConfigurationError, match="is older than the checkpoint"):
        stream.plan()


def test_a_checkpoint_of_another_table_or_source_is_refused(db: Any, follow: Follow) -> None:
    stream = follow(table="history")
    stream.committed["table"] = "attempts"
    with pytest.raises(ConfigurationError, match="is of table attempts"):
        stream.plan()
    stream.committed = {"offset": 17}
    with pytest.raises(ConfigurationError, match="another source or another version"):
        stream.plan()


def test_a_database_that_cannot_be_used_says_why(db: Any, dsn: str, empty_dsn: str) -> None:
    with pytest.raises(SchemaMissingError, match="migrate up"):
        batch(dsn=empty_dsn, table="history")
    with pytest.raises(DatabaseUnavailableError):
        batch(dsn="postgresql://localhost:1/nowhere", table="history")
    db.execute("insert into penstock.migration (version, name, checksum) values (9999, 'x', 'y')")
    with pytest.raises(SchemaNewerError, match="9999"):
        batch(dsn=dsn, table="history")


def test_live_messages_and_dead_letters_are_read_as_they_are(db: Any, dsn: str) -> None:
    for number in range(6):
        db.execute("select penstock.enqueue('orders', %s)", [str(number)])
    db.execute("select penstock.reject(id, token, 'bad') from penstock.claim('orders', 2)")
    db.execute("select * from penstock.claim('orders', 1)")
    states = [row["state"] for row in batch(dsn=dsn, table="messages")]
    assert sorted(states) == ["dead", "dead", "leased", "ready", "ready", "ready"]
    dead = batch(dsn=dsn, table="dead")
    assert [(row["queue"], row["last_error"]) for row in dead] == [("orders", "bad")] * 2
