"""What the sink rests on, in SQL alone: staging, publishing once, messages of every kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.conftest import Connect

COLUMNS = {
    "payload": "jsonb",
    "payload_bytes": "bytea",
    "headers": "jsonb",
    "key": "text",
    "priority": "integer",
    "group_key": "text",
    "delay_seconds": "double precision",
    "visible_at": "timestamptz",
    "ttl_seconds": "double precision",
    "max_attempts": "integer",
}
Rows = list[dict[str, Any]]


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    connection = connect()
    connection.execute("select penstock.create_queue('mail')")
    return connection


def stage(db: Any, rows: Rows, attempt: UUID, piece: int = 0, queue: str = "mail") -> Any:
    """A piece of a partition: (how many, their checksum)."""
    arrays = [
        [row.get(name) for row in rows] if any(name in row for row in rows) else None
        for name in COLUMNS
    ]
    marks = ", ".join(f"%s::{kind}[]" for kind in COLUMNS.values())
    query = f"select * from penstock.spark_stage(%s, %s, %s, {marks})"
    return db.execute(query, [attempt, piece, queue, *arrays]).fetchone()


def put(db: Any, *parts: Rows, job: str = "job", epoch: int = 0, **options: Any) -> bool:
    """A whole write, in so many partitions: whether it was there already."""
    attempts = [uuid4() for _ in parts]
    staged = []
    for attempt, rows in zip(attempts, parts, strict=True):
        queues = list(dict.fromkeys(row.get("queue", "mail") for row in rows))
        for piece, queue in enumerate(queues):
            chosen = [row for row in rows if row.get("queue", "mail") == queue]
            staged.append(stage(db, chosen, attempt, piece, queue))
    return publish(db, attempts, staged, job, epoch, **options)


def publish(
    db: Any, attempts: list[UUID], staged: Any, job: str = "job", epoch: int = 0, **options: Any
) -> bool:
    checksum = sum(each[1] for each in staged) % (2**63 - 1)
    named = "".join(f", {name} => %s" for name in options)
    found = db.execute(
        f"select repeated from penstock.spark_publish(%s, %s, %s, %s, %s{named})",
        [job, epoch, attempts, sum(each[0] for each in staged), checksum, *options.values()],
    ).fetchone()
    return bool(found[0])


def count(db: Any, table: str) -> int:
    return int(db.execute(f"select count(*) from penstock.{table}").fetchone()[0])


def waiting(db: psycopg.Connection[Any], column: str = "payload") -> list[Any]:
    rows = db.execute(f"select {column} from penstock.messages order by id").fetchall()
    return [value for (value,) in rows]


def numbers(*values: int) -> Rows:
    return [{"payload": str(n)} for n in values]


def test_nothing_is_enqueued_before_the_write_is_published(db: Any) -> None:
    attempts = [uuid4(), uuid4()]
    staged = [
        stage(db, numbers(*range(50)), attempts[0]),
        stage(db, numbers(*range(50, 80)), attempts[1], 0),
        stage(db, numbers(*range(80, 100)), attempts[1], 1),
    ]
    assert waiting(db) == []
    assert publish(db, attempts, staged) is False
    assert waiting(db) == [*range(100)]
    assert count(db, "spark_staged") == 0


def test_the_same_rows_are_recognised_however_they_are_divided(db: Any) -> None:
    rows = [*numbers(*range(30)), {"payload": "1", "priority": 3}, {"payload": '{"a": 1, "b": 2}'}]
    assert put(db, rows) is False
    again = [{"payload": ' {"b":2, "a":1}'}, *reversed(rows[:-1])]
    assert put(db, again[:7], again[7:9], again[9:]) is True
    assert put(db, rows, epoch=1) is False
    assert put(db, rows, job="other") is False
    assert len(waiting(db)) == 3 * 32
    kept = "select job, epoch, count, repeats from penstock.spark_writes order by 1, 2"
    assert db.execute(kept).fetchall() == [
        ("job", 0, 32, 1),
        ("job", 1, 32, 0),
        ("other", 0, 32, 0),
    ]
    assert count(db, "spark_staged") == 0


def test_other_rows_under_the_same_name_are_refused(db: Any) -> None:
    db.execute("select penstock.create_queue('other')")
    put(db, [{"payload": "1"}, {"payload": "2", "priority": 3}])
    others = (
        numbers(1),
        [{"payload": "1"}, {"payload": "3", "priority": 3}],
        [{"payload": "1"}, {"payload": "2", "priority": 4}],
        [{"payload": "2"}, {"payload": "1", "priority": 3}],
        [{"payload": "1", "queue": "other"}, {"payload": "2", "priority": 3}],
        [{"payload": "1"}, {"payload": "2", "priority": 3}, {"payload": "2", "priority": 3}],
    )
    for rows in others:
        with pytest.raises(psycopg.Error, match="job 'job' was written before with other rows: 2"):
            put(db, rows)
    assert sorted(waiting(db)) == [1, 2]


def test_a_batch_of_a_checkpoint_is_the_same_even_if_its_rows_differ(db: Any) -> None:
    put(db, numbers(1), same_batch=True)
    assert put(db, numbers(2), same_batch=True) is True
    assert waiting(db) == [1]


def test_a_batch_older_than_those_known_is_refused(db: Any) -> None:
    for epoch in range(15):
        put(db, numbers(epoch), epoch=epoch)
    with pytest.raises(psycopg.Error, match="batch 0 of job 'job' comes after batch 14"):
        put(db, numbers(0), epoch=0)
    assert waiting(db) == [*range(15)]
    assert count(db, "spark_write") == 11


def test_a_write_of_the_version_before_is_not_taken_for_a_new_one(db: Any) -> None:
    db.execute("select penstock.spark_begin('job', 0, 0, 5, 7)")
    with pytest.raises(psycopg.Error, match="earlier version of Penstock, with 5 rows; 1 now"):
        put(db, numbers(1))
    assert waiting(db) == []


def test_staged_rows_that_are_lost_are_missed(db: Any) -> None:
    attempts = [uuid4(), uuid4()]
    staged = [stage(db, numbers(1, 2), attempt) for attempt in attempts]
    db.execute("delete from penstock.spark_staged where attempt = %s", [attempts[0]])
    with pytest.raises(psycopg.errors.SerializationFailure, match="2 of 4 staged rows are there"):
        publish(db, attempts, staged)
    assert waiting(db) == []
    assert count(db, "spark_write") == 0


def test_upkeep_drops_what_dead_writes_have_staged_after_a_day(db: Any) -> None:
    old, new = uuid4(), uuid4()
    for attempt in (old, new):
        stage(db, numbers(1), attempt)
    put(db, numbers(2), job="kept")
    put(db, numbers(2), job="forgotten", is_named=False)
    db.execute("update penstock.spark_write set published_at = now() - interval '25 hours'")
    db.execute(
        "update penstock.spark_staged set staged_at = now() - interval '25 hours'"
        " where attempt = %s",
        [old],
    )
    (done,) = db.execute("select penstock.maintain()").fetchone()
    assert done["staged_pieces_dropped"] == 1
    assert db.execute("select attempt from penstock.spark_staged").fetchall() == [(new,)]
    assert db.execute("select job from penstock.spark_write").fetchall() == [("kept",)]


def test_two_runs_of_the_same_write_enqueue_it_once(db: Any, connect: Connect) -> None:
    """The driver was killed, and its transaction ends after the next run has begun to publish."""
    first, watch = connect(), connect()
    attempt, later = uuid4(), uuid4()
    staged = stage(db, numbers(1, 2), attempt)
    assert stage(db, numbers(2, 1), later) == staged
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            assert publish(first, [attempt], [staged]) is False
            second = pool.submit(publish, db, [later], [staged])
            waits = "select wait_event_type from pg_stat_activity where pid = %s"
            while watch.execute(waits, [db.info.backend_pid]).fetchone() != ("Lock",):
                assert not second.done()
        assert second.result() is True
    assert waiting(db) == [1, 2]


def test_all_that_an_enqueue_can_say_comes_along(db: Any) -> None:
    db.execute("select penstock.create_queue('other')")
    put(
        db,
        [
            {"payload": '{"n": 1}', "priority": 7, "headers": '{"a": "b"}', "max_attempts": 2},
            {"payload_bytes": b"\x00\xff", "queue": "other"},
            {"payload": '"' + "x" * 5000 + '"'},
            {"payload": "2", "delay_seconds": 3600},
            {"payload": "3", "visible_at": "2100-01-01T00:00:00Z"},
            {"payload": "4", "visible_at": "2000-01-01T00:00:00Z"},
            {"payload": "5", "ttl_seconds": 60},
            {"payload": "6", "group_key": "g"},
            {"payload": "7", "key": "k"},
            {"payload": "8", "key": "k"},
        ],
    )
    rows = db.execute(
        "select queue, state, payload, payload_bytes, headers, priority, max_attempts, key,"
        " group_key, expires_at is not null from penstock.messages order by id"
    ).fetchall()
    plain = (None, None, 0, 5, None, None, False)
    assert sorted(rows, key=str) == sorted(
        [
            ("mail", "ready", {"n": 1}, None, {"a": "b"}, 7, 2, None, None, False),
            ("other", "ready", None, b"\x00\xff", *plain[1:]),
            ("mail", "ready", "x" * 5000, *plain),
            ("mail", "scheduled", 2, *plain),
            ("mail", "scheduled", 3, *plain),
            ("mail", "ready", 4, *plain),
            ("mail", "ready", 5, *plain[:-1], True),
            ("mail", "ready", 6, None, None, 0, 5, None, "g", False),
            ("mail", "ready", 8, None, None, 0, 5, "k", None, False),
        ],
        key=str,
    )
    claimed = db.execute("select payload from penstock.claim('mail', 100)").fetchall()
    assert len(claimed) == 6


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({}, "payload is null"),
        ({"payload": "1", "payload_bytes": b"1"}, "one of payload and payload_bytes"),
        ({"payload": "1", "priority": 10}, "from -9 to 9"),
        ({"payload": "1", "max_attempts": 0}, "from 1 to 100"),
        ({"payload": "1", "headers": "[]"}, "a JSON object"),
        ({"payload": "1", "delay_seconds": -1}, "0 to 100 years"),
        ({"payload": "1", "delay_seconds": 1, "visible_at": "now"}, "not both"),
        ({"payload": "1", "ttl_seconds": 0}, "more than 0"),
        ({"payload": "1", "delay_seconds": 1e300}, "0 to 100 years"),
        ({"payload": "1", "ttl_seconds": float("nan")}, "more than 0"),
        ({"payload": "1", "key": ""}, "1 to 1024 bytes"),
        ({"payload": '"' + "x" * 300_000 + '"'}, "queue 'mail' takes 262144"),
        ({"payload": "1", "queue": "nothing"}, "'nothing' does not exist"),
        ({"payload": "1", "queue": "mail.dlq"}, "reserved"),
        ({"payload": "{"}, "invalid input syntax for type json"),
    ],
)
def test_one_wrong_row_is_named(db: Any, row: dict[str, Any], match: str) -> None:
    with pytest.raises(psycopg.Error, match=match) as failed:
        put(db, [{"payload": "1"}, row])
    if "queue" not in row and row.get("payload") != "{":
        assert '"index": 1' in str(failed.value.diag.message_detail)
    assert waiting(db) == []
    assert count(db, "spark_write") == 0


def test_a_full_queue_takes_no_part_of_a_write(db: Any) -> None:
    db.execute("select penstock.set_queue('mail', '{\"max_depth\": 10}')")
    put(db, numbers(*[1] * 8))
    with pytest.raises(psycopg.Error, match="is full"):
        put(db, numbers(2), numbers(2, 2), job="more")
    put(db, numbers(3), numbers(3), job="more")
    assert waiting(db) == [1] * 8 + [3] * 2
    with pytest.raises(psycopg.Error, match="rows is '11'; allowed: at most 10, the max_depth"):
        put(db, numbers(*[4] * 6), numbers(*[4] * 5), job="never")


def test_keys_follow_the_option(db: Any) -> None:
    rows = [{"payload": "1", "key": "k"}, {"payload": "2", "key": "k"}]
    put(db, rows, on_conflict="skip")
    assert waiting(db) == [1]
    with pytest.raises(psycopg.Error, match="is waiting"):
        put(db, rows, job="other", on_conflict="error")


def test_many_messages_turn_the_ring_and_are_claimed_in_order(db: Any) -> None:
    put(db, *(numbers(*range(n, n + 10_000)) for n in range(0, 40_000, 10_000)))
    (ring,) = db.execute("select penstock._used_slots()").fetchone()
    assert len(ring) > 1
    seen: list[Any] = []
    query = "select payload from penstock.claim('mail', 10000, 3600)"
    while rows := db.execute(query).fetchall():
        seen += [payload for (payload,) in rows]
    assert seen == [*range(40_000)]


def test_whoever_waits_for_messages_is_woken(db: Any, connect: Connect) -> None:
    listener = connect()
    listener.execute('listen "penstock:mail"')
    listener.execute("select penstock.attend('mail', 60)")
    put(db, [{"payload": "1"}])
    assert [note.payload for note in listener.notifies(timeout=60, stop_after=1)] == ["ready"]
