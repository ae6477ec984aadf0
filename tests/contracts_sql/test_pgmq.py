"""PGMQ's functions. The suite runs over PGMQ itself, too, so that it says what PGMQ does."""

from __future__ import annotations

from time import monotonic
from typing import Any

import psycopg
import pytest

from .sessions import Connection, rows, value
from .work import Session, elsewhere, peek, read, send


def test_a_message_as_it_is_read(mq: Connection) -> None:
    number = send(mq, '{"a": [1, null]}', """'{"trace": "x"}'::jsonb""")
    query = """select *, vt - last_read_at, last_read_at >= enqueued_at
               from pgmq.read('work', 30, 1)"""
    cursor = mq.execute(query)
    [row] = cursor.fetchall()
    columns = [column.name for column in cursor.description or []]
    assert columns[:7] == [
        *("msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers")
    ]
    assert (row[0], row[1], row[5], row[6]) == (number, 1, {"a": [1, None]}, {"trace": "x"})
    assert row[7].total_seconds() == pytest.approx(30, abs=1)
    assert row[8]


def test_messages_come_in_order_and_once_within_their_timeout(mq: Connection) -> None:
    ids = [send(mq) for _ in range(5)]
    assert ids == sorted(ids)
    assert read(mq, qty=2) == ids[:2]
    assert read(mq) == ids[2:]
    assert read(mq) == []
    assert peek(mq) == ids


WAYS_TO_SEND = [
    ([], True),
    (["0"], True),
    (["-5"], True),
    (["600"], False),
    (["now() - interval '1 hour'"], True),
    (["now() + interval '1 hour'"], False),
    (["'{}'::jsonb", "0"], True),
    (["'{}'::jsonb", "600"], False),
    (["'{}'::jsonb", "now() + interval '1 hour'"], False),
    (["headers => '{}'"], True),
    (["delay => 600"], False),
    (["headers => '{}'", "delay => 600"], False),
    (["null", "600"], False),
]


def test_every_way_to_send_one(mq: Connection) -> None:
    for arguments, visible in WAYS_TO_SEND:
        number = send(mq, "{}", *arguments)
        assert peek(mq) == [number], arguments
        assert read(mq) == ([number] if visible else []), arguments
        rows(mq, "select pgmq.purge_queue('work')")


WAYS_TO_SEND_MANY = [
    ([], True),
    (["600"], False),
    (["now() + interval '1 hour'"], False),
    (["""array['{"h": 1}', null]::jsonb[]"""], True),
    (["""array['{"h": 1}', null]::jsonb[]""", "600"], False),
    (["""array['{"h": 1}', null]::jsonb[]""", "now() - interval '1 hour'"], True),
]


def test_every_way_to_send_many(mq: Connection) -> None:
    for arguments, visible in WAYS_TO_SEND_MANY:
        call = ", ".join(["'work'", "array['1', '2']::jsonb[]", *arguments])
        ids = [row[0] for row in rows(mq, f"select * from pgmq.send_batch({call})")]
        assert len(ids) == 2
        found = rows(mq, "select msg_id, message, headers from pgmq.q_work order by msg_id")
        headers = [{"h": 1}, None] if "{" in call else [None, None]
        assert found == [(ids[0], 1, headers[0]), (ids[1], 2, headers[1])]
        assert read(mq) == (ids if visible else []), arguments
        rows(mq, "select pgmq.purge_queue('work')")


REFUSED = [
    "send_batch('work', array[]::jsonb[])",
    "send_batch('work', null)",
    "send_batch('work', array['1']::jsonb[], array[]::jsonb[])",
    "send_batch('work', array['1']::jsonb[], array['{}', '{}']::jsonb[])",
    "send('none', '{}')",
    "send_batch('none', array['1']::jsonb[])",
    "read('none', 1, 1)",
    "read('work', null, 1)",
    "read('work', 1, -1)",
    "delete('none', 1)",
    "archive('none', 1)",
    "set_vt('none', 1, 1)",
    "pop('none')",
    "purge_queue('none')",
    "metrics('none')",
    "enable_notify_insert('none')",
    "enable_notify_insert('work', -1)",
    "update_notify_insert('work', 5)",
    "bind_topic('a', 'none')",
    "bind_topic('a', '')",
    "bind_topic('', 'work')",
    "unbind_topic('', 'work')",
    "create(repeat('x', 48))",
    "create('a;b')",
    "create('a''b')",
    "create_partitioned('other', premake => 0)",
    "validate_queue_name(repeat('x', 48))",
    "send_topic('a', null)",
    "send_topic('a', '1', -1)",
    "send_topic('a..b', '1')",
    "send_batch_topic('a', array[]::jsonb[])",
    "test_routing('*')",
    "read_grouped('none', 1, 1)",
]


def test_what_is_refused_is_refused_by_both(mq: Connection) -> None:
    number = send(mq)
    for call in REFUSED:
        try:
            rows(mq, f"select * from pgmq.{call}")
        except psycopg.Error:
            continue
        pytest.fail(f"not refused: {call}")
    assert read(mq) == peek(mq) == [number]


def test_names_are_not_told_apart_by_capitals(mq: Connection) -> None:
    rows(mq, "select pgmq.create('MixedCase')")
    number = value(mq, "select * from pgmq.send('mixedcase', '1')")
    assert value(mq, "select msg_id from pgmq.read('MIXEDCASE', 30, 1)") == number
    assert value(mq, "select msg_id from pgmq.q_mixedcase") == number
    listed = "select queue_name from pgmq.list_queues() where queue_name ilike 'mixed%'"
    assert value(mq, listed) == "MixedCase"
    assert value(mq, "select pgmq.drop_queue('MixedCase')")


def test_a_name_has_up_to_47_characters(mq: Connection) -> None:
    name = "x" * 47
    rows(mq, "select pgmq.create($1)", name)
    rows(mq, "select pgmq.create($1)", name)  # again does no harm
    value(mq, "select * from pgmq.send($1, '1')", name)
    assert value(mq, f"select count(*) from pgmq.q_{name}") == 1
    assert value(mq, "select pgmq.drop_queue($1)", name) is True
    assert value(mq, "select pgmq.drop_queue($1)", name) is False
    assert value(mq, "select count(*) from pgmq.list_queues()") == 1


def test_queues_are_listed_as_they_were_made(mq: Connection) -> None:
    rows(mq, "select pgmq.create_unlogged('quick')")
    rows(mq, "select pgmq.create_non_partitioned('plain')")
    query = """select queue_name, is_partitioned, is_unlogged, created_at <= clock_timestamp()
               from pgmq.list_queues() order by 1"""
    assert rows(mq, query) == [
        ("plain", False, False, True),
        ("quick", False, True, True),
        ("work", False, False, True),
    ]
    assert rows(mq, "select queue_name from pgmq.meta order by 1") == [
        *(("plain",), ("quick",), ("work",))
    ]


def test_delete_takes_a_message_in_any_state(mq: Connection) -> None:
    read_one, waiting, delayed = send(mq), None, None
    assert read(mq) == [read_one]
    waiting, delayed = send(mq), send(mq, "{}", "600")
    for number in (read_one, waiting, delayed):
        assert value(mq, "select pgmq.delete('work', $1::bigint)", number) is True
        assert value(mq, "select pgmq.delete('work', $1::bigint)", number) is False
    assert peek(mq) == []


def test_delete_many_says_which(mq: Connection) -> None:
    ids = [send(mq) for _ in range(4)]
    read(mq, qty=2)
    gone = rows(mq, "select * from pgmq.delete('work', $1)", [*ids[1:3], 10**12])
    assert sorted(row[0] for row in gone) == ids[1:3]
    assert peek(mq) == [ids[0], ids[3]]
    assert rows(mq, "select * from pgmq.delete('work', array[]::bigint[])") == []


def test_a_message_can_be_deleted_after_its_timeout(mq: Connection) -> None:
    number = send(mq)
    assert read(mq, vt=0) == [number]
    assert value(mq, "select pgmq.delete('work', $1::bigint)", number) is True
    assert read(mq) == []


def test_without_a_timeout_a_message_stays_where_it_is(mq: Connection) -> None:
    ids = [send(mq) for _ in range(3)]
    assert read(mq, vt=0) == ids
    assert read(mq, vt=-1, qty=1) == ids[:1]
    assert sorted(read(mq, vt=100_000)) == ids
    found = rows(mq, "select read_ct from pgmq.q_work order by msg_id")
    assert [row[0] for row in found] == [3, 2, 2]
    assert read(mq) == []


def test_archive_keeps_messages(mq: Connection) -> None:
    ids = [send(mq, '{"n": 1}', """'{"h": 1}'::jsonb""") for _ in range(4)]
    read(mq, qty=2)
    assert value(mq, "select pgmq.archive('work', $1::bigint)", ids[0]) is True
    assert value(mq, "select pgmq.archive('work', $1::bigint)", ids[0]) is False
    gone = rows(mq, "select * from pgmq.archive('work', $1)", [*ids[1:3], 10**12])
    assert sorted(row[0] for row in gone) == ids[1:3]
    cursor = mq.execute("select * from pgmq.a_work order by msg_id")
    columns = [column.name for column in cursor.description or []]
    assert columns == [
        *("msg_id", "read_ct", "enqueued_at", "last_read_at", "archived_at", "vt"),
        *("message", "headers"),
    ]
    found = cursor.fetchall()
    assert [row[:2] for row in found] == [(ids[0], 1), (ids[1], 1), (ids[2], 0)]
    assert {(str(row[6]), str(row[7])) for row in found} == {("{'n': 1}", "{'h': 1}")}
    assert peek(mq) == ids[3:]
    # An archive is the user's own to tidy up.
    rows(mq, "delete from pgmq.a_work where archived_at <= now()")
    assert rows(mq, "select * from pgmq.a_work") == []


def test_pop_reads_and_deletes(mq: Connection) -> None:
    ids = [send(mq) for _ in range(4)]
    query = "select msg_id, read_ct, last_read_at from pgmq.pop('work')"
    assert rows(mq, query) == [(ids[0], 0, None)]
    assert [row[0] for row in rows(mq, "select * from pgmq.pop('work', 2)")] == ids[1:3]
    assert peek(mq) == ids[3:]


@pytest.mark.parametrize("one", ["$1::bigint", "array[$1]::bigint[]"])
@pytest.mark.parametrize("kind", ["integer", "timestamptz"])
def test_set_vt_hides_and_shows(mq: Connection, one: str, kind: str) -> None:
    number = send(mq, '{"n": 1}')

    def set_vt(seconds: int) -> list[Any]:
        time = "$2" if kind == "integer" else "clock_timestamp() + $2 * interval '1 second'"
        query = f"select msg_id, read_ct, message from pgmq.set_vt('work', {one}, {time})"
        return rows(mq, query, number, seconds)

    assert set_vt(600) == [(number, 0, {"n": 1})]
    assert read(mq) == []
    assert set_vt(0) == [(number, 0, {"n": 1})]
    assert read(mq) == [number]
    assert set_vt(0) == [(number, 1, {"n": 1})]
    assert read(mq) == [number]
    assert set_vt(100_000) == [(number, 2, {"n": 1})]
    query = "select vt > now() + interval '1 day' from pgmq.q_work"
    assert value(mq, query) is True
    assert rows(mq, "select * from pgmq.set_vt('work', 1000000000000, 5)") == []


def test_purge_empties_a_queue(mq: Connection) -> None:
    for _ in range(5):
        send(mq)
    send(mq, "{}", "600")
    read(mq, qty=2)
    assert value(mq, "select pgmq.purge_queue('work')") == 6
    assert peek(mq) == read(mq) == []
    assert value(mq, "select pgmq.purge_queue('work')") == 0


def test_metrics(mq: Connection) -> None:
    empty = rows(mq, "select * from pgmq.metrics('work')")[0]
    assert empty[:5] == ("work", 0, None, None, 0)
    begun = monotonic()
    for _ in range(5):
        send(mq)
    rows(mq, "select * from pgmq.send_batch('work', array['1', '2']::jsonb[], 600)")
    read(mq, qty=2)
    rows(mq, "select pgmq.delete('work', $1::bigint)", peek(mq)[0])
    cursor = mq.execute("select * from pgmq.metrics('work')")
    [full] = cursor.fetchall()
    assert [column.name for column in cursor.description or []] == [
        *("queue_name", "queue_length", "newest_msg_age_sec", "oldest_msg_age_sec"),
        *("total_messages", "scrape_time", "queue_visible_length", "default_partition_length"),
    ]
    assert (full[0], full[1], full[4], full[6], full[7]) == ("work", 6, 7, 3, None)
    assert 0 <= full[2] <= full[3] <= 1 + (monotonic() - begun)
    rows(mq, "select pgmq.create('other')")
    names = rows(mq, "select queue_name, queue_length from pgmq.metrics_all() order by 1")
    assert names == [("other", 0), ("work", 6)]


def test_a_condition_chooses_what_is_read(mq: Connection) -> None:
    ids = [send(mq, f'{{"kind": {n % 3}, "n": {n}}}') for n in range(9)]
    query = "select msg_id from pgmq.read('work', 30, $1, $2)"
    assert rows(mq, query, 2, '{"kind": 1}') == [(ids[1],), (ids[4],)]
    assert rows(mq, query, 5, '{"kind": 1}') == [(ids[7],)]
    assert rows(mq, query, 5, '{"kind": 5}') == []
    assert len(rows(mq, query, 9, "{}")) == 6


def test_polling_returns_at_once_when_there_is_something(mq: Connection) -> None:
    number = send(mq, '{"kind": 1}')
    polled = "select msg_id from pgmq.read_with_poll('work', 30, 5, 30, 100"
    assert rows(mq, f"{polled}, '{{\"kind\": 1}}')") == [(number,)]
    number = send(mq)
    assert rows(mq, f"{polled})") == [(number,)]
    assert rows(mq, "select * from pgmq.read_with_poll('work', 30, 5, 1, 50)") == []
    assert rows(mq, "select * from pgmq.read_with_poll('work', 30, 5, 0)") == []


def test_it_is_part_of_the_transaction(mq: Connection, session: Session) -> None:
    number = send(mq)
    app = elsewhere(mq, session, autocommit=False)
    value(app, "select * from pgmq.send('work', '1')")
    assert number in read(app)
    assert read(mq) == [], "what another transaction reads is skipped, not waited for"
    app.rollback()
    assert read(mq, vt=600) == [number]
    assert value(app, "select pgmq.delete('work', $1::bigint)", number) is True
    app.rollback()
    assert peek(mq) == [number]


def test_what_is_only_for_show_does_no_harm(mq: Connection) -> None:
    rows(mq, "select pgmq.create_fifo_index('work')")
    rows(mq, "select pgmq.create_fifo_indexes_all()")
    rows(mq, "select pgmq.detach_archive('work')")
    assert value(mq, "select pgmq.format_table_name('Work', 'q')") == "q_work"
    rows(mq, "select pgmq.acquire_queue_lock('work')")
    assert value(mq, "select pgmq.drop_queue('work', false)") is True
