"""What the sink rests on, in SQL alone: the ledger, and messages of every kind in one statement."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.conftest import Connect

from penstock.lake.sink_columns import TARGETS
from penstock.lake.statements import statement

COLUMNS = ", ".join(TARGETS)


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    connection = connect()
    connection.execute("select penstock.create_queue('mail')")
    return connection


def put(
    db: psycopg.Connection[Any],
    rows: list[dict[str, Any]],
    job: str = "job",
    epoch: int = 0,
    part: int = 0,
    **options: str,
) -> tuple[int, bool]:
    """As a task does it: (how many, whether they were there already)."""
    names = COLUMNS.split(", ")
    chosen = {"queue": "mail", "on_conflict": "replace", "unique_while": "waiting", **options}
    with db.transaction():
        db.execute(statement("incoming").encode())
        with db.cursor().copy(f"copy pg_temp.penstock_incoming ({COLUMNS}) from stdin") as copy:
            for row in rows:
                copy.write_row([row.get(name) for name in names])
        found = db.execute(
            "select * from penstock.spark_enqueue(%s, %s, %s, %s, %s, %s)",
            [job, epoch, part, *chosen.values()],
        ).fetchone()
    assert found is not None
    return found[0], found[1]


def waiting(db: psycopg.Connection[Any], column: str = "payload") -> list[Any]:
    rows = db.execute(f"select {column} from penstock.messages order by id").fetchall()
    return [value for (value,) in rows]


def test_a_partition_is_enqueued_once(db: Any) -> None:
    rows = [{"payload": str(n)} for n in range(50)]
    assert put(db, rows) == (50, False)
    assert put(db, list(reversed(rows))) == (50, True)
    assert put(db, rows, part=1) == (50, False)
    assert put(db, rows, epoch=1) == (50, False)
    assert waiting(db) == [*range(50)] * 3


def test_other_rows_under_the_same_number_are_refused(db: Any) -> None:
    put(db, [{"payload": "1"}, {"payload": "2", "priority": 3}])
    others = (
        [{"payload": "1"}],
        [{"payload": "1"}, {"payload": "3", "priority": 3}],
        [{"payload": "1"}, {"payload": "2", "priority": 4}],
        [{"payload": "2"}, {"payload": "1", "priority": 3}],
    )
    for rows in others:
        with pytest.raises(psycopg.Error, match="was enqueued before, with other rows"):
            put(db, rows)
    assert sorted(waiting(db)) == [1, 2]


def test_a_complete_write_is_not_repeated_however_it_is_cut(db: Any) -> None:
    put(db, [{"payload": "1"}])
    db.execute("select penstock.spark_complete('job', 0)")
    assert put(db, [{"payload": "1"}], part=7) == (1, True)
    assert waiting(db) == [1]
    kept = db.execute("select part, count from penstock.spark_written").fetchall()
    assert kept == [(-1, 1)]


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
        ({"payload": "1", "key": ""}, "1 to 1024 bytes"),
        ({"payload": '"' + "x" * 300_000 + '"'}, "queue 'mail' takes 262144"),
        ({"payload": "1", "queue": "nothing"}, "'nothing' does not exist"),
        ({"payload": "1", "queue": "mail.dlq"}, "reserved"),
        ({"payload": "{"}, "invalid input syntax for type json"),
    ],
)
def test_one_wrong_row_keeps_its_partition_out(db: Any, row: dict[str, Any], match: str) -> None:
    with pytest.raises(psycopg.Error, match=match):
        put(db, [{"payload": "1"}, row])
    assert waiting(db) == []
    assert db.execute("select count(*) from penstock.spark_written").fetchone() == (0,)


def test_a_full_queue_takes_no_part_of_a_partition(db: Any) -> None:
    db.execute("select penstock.set_queue('mail', '{\"max_depth\": 10}')")
    put(db, [{"payload": "1"}] * 8)
    with pytest.raises(psycopg.Error, match="is full"):
        put(db, [{"payload": "2"}] * 3, part=1)
    put(db, [{"payload": "3"}] * 2, part=1)
    assert waiting(db) == [1] * 8 + [3] * 2


def test_keys_follow_the_option(db: Any) -> None:
    rows = [{"payload": "1", "key": "k"}, {"payload": "2", "key": "k"}]
    put(db, rows, on_conflict="skip")
    assert waiting(db) == [1]
    with pytest.raises(psycopg.Error, match="is waiting"):
        put(db, rows, part=1, on_conflict="error")


def test_many_messages_turn_the_ring_and_are_claimed_in_order(db: Any) -> None:
    put(db, [{"payload": str(n)} for n in range(40_000)])
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
