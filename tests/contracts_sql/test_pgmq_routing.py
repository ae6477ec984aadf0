"""PGMQ's groups, topics and notifications: the same suite, over PGMQ itself and over ours."""

from __future__ import annotations

import psycopg
import pytest

from .sessions import Connection, rows, value
from .work import Session, elsewhere, read, send


def group(mq: Connection, *names: str | None) -> list[int]:
    """Sends a message for each name, to the group of that name."""
    headers = ["null" if name is None else f"""'{{"x-pgmq-group": "{name}"}}'""" for name in names]
    return [send(mq, "{}", f"{header}::jsonb") for header in headers]


def read_groups(mq: Connection, how: str, qty: int, vt: int = 30) -> list[int]:
    query = f"select msg_id from pgmq.read_grouped{how}('work', $1, $2)"
    return [row[0] for row in rows(mq, query, vt, qty)]


def test_grouped_fills_up_from_the_oldest_group(mq: Connection) -> None:
    a1, b1, a2, c1, a3, b2 = group(mq, "a", "b", "a", None, "a", "b")
    assert sorted(read_groups(mq, "", 2)) == [a1, a2]
    # a is being read: its third message has to wait.
    assert sorted(read_groups(mq, "", 10)) == sorted([b1, b2, c1])
    assert read_groups(mq, "", 10) == []
    rows(mq, "select pgmq.delete('work', $1)", [a1, a2])
    assert read_groups(mq, "", 10) == [a3]


def test_round_robin_takes_turns(mq: Connection) -> None:
    a1, a2, a3, b1, b2, c1 = group(mq, "a", "a", "a", "b", "b", None)
    assert read_groups(mq, "_rr", 5) == [a1, b1, c1, a2, b2]
    assert read_groups(mq, "_rr", 5) == []
    rows(mq, "select pgmq.delete('work', $1)", [a1, a2])
    assert read_groups(mq, "_rr", 5) == [a3]


def test_head_takes_one_of_each(mq: Connection) -> None:
    a1, _, b1, c1, _ = group(mq, "a", "a", "b", "c", "c")
    assert sorted(read_groups(mq, "_head", 2)) == [a1, b1]
    assert read_groups(mq, "_head", 5) == [c1]
    assert read_groups(mq, "_head", 5) == []


@pytest.mark.parametrize("how", ["", "_rr", "_head"])
def test_a_group_waits_for_its_first_message(mq: Connection, how: str) -> None:
    first = send(mq, "{}", """'{"x-pgmq-group": "a"}'::jsonb""", "600")
    [second] = group(mq, "a")
    assert read_groups(mq, how, 5) == []
    rows(mq, "select pgmq.set_vt('work', $1::bigint, 0)", first)
    assert first in read_groups(mq, how, 5)
    rows(mq, "select pgmq.delete('work', $1::bigint)", first)
    remaining = [] if how == "" else [second]
    assert set(read_groups(mq, how, 5)) <= {second, *remaining}


@pytest.mark.parametrize("how", ["", "_rr", "_head"])
def test_two_readers_never_share_a_group(mq: Connection, session: Session, how: str) -> None:
    ids = group(mq, "a", "b", "a", "b")
    one, two = (elsewhere(mq, session, autocommit=False) for _ in range(2))
    first = read_groups(one, how, 1)
    second = read_groups(two, how, 10)
    assert len(first) == 1
    assert {ids.index(number) % 2 for number in first} == {0}
    assert {ids.index(number) % 2 for number in second} <= {1}


@pytest.mark.parametrize("how", ["", "_rr", "_head"])
def test_groups_can_be_polled(mq: Connection, how: str) -> None:
    [number] = group(mq, "a")
    query = f"select msg_id from pgmq.read_grouped{how}_with_poll('work', 30, 5, 30, 100)"
    assert rows(mq, query) == [(number,)]
    query = f"select msg_id from pgmq.read_grouped{how}_with_poll('work', 30, 5, 1, 20)"
    assert rows(mq, query) == []


TOPICS = {
    "#": ["a", "a.b", "a.b.c"],
    "a": ["a"],
    "a.*": ["a.b"],
    "a.#": ["a.b", "a.b.c"],
    "*.b": ["a.b"],
    "#.c": ["a.b.c"],
    "a.*.c": ["a.b.c"],
    "a-b._": [],
}


def test_patterns_match_segments(mq: Connection) -> None:
    for pattern, keys in TOPICS.items():
        rows(mq, "select pgmq.bind_topic($1, 'work')", pattern)
        rows(mq, "select pgmq.bind_topic($1, 'work')", pattern)
        query = "select queue_name from pgmq.test_routing($1)"
        assert [key for key in ("a", "a.b", "a.b.c") if rows(mq, query, key)] == keys, pattern
        [binding] = rows(mq, "select pattern, queue_name from pgmq.list_topic_bindings('work')")
        assert binding == (pattern, "work")
        assert rows(mq, "select pattern from pgmq.topic_bindings") == [(pattern,)]
        assert value(mq, "select pgmq.unbind_topic($1, 'work')", pattern) is True
        assert value(mq, "select pgmq.unbind_topic($1, 'work')", pattern) is False


def test_the_compiled_pattern_is_the_same(mq: Connection) -> None:
    rows(mq, "select pgmq.bind_topic('logs.*.e-r_r.#', 'work')")
    assert value(mq, "select compiled_regex from pgmq.list_topic_bindings()") == (
        r"^logs\.[^.]+\.e-r_r\..*$"
    )


def test_a_topic_reaches_every_queue_once(mq: Connection) -> None:
    rows(mq, "select pgmq.create('more')")
    for pattern, queue in (("a.#", "work"), ("a.*", "work"), ("a.b", "more")):
        rows(mq, "select pgmq.bind_topic($1, $2)", pattern, queue)
    assert value(mq, "select pgmq.send_topic('a.b', '1')") == 2
    assert value(mq, "select pgmq.send_topic('a.c', '2', 0)") == 1
    assert value(mq, "select pgmq.send_topic('a.c', '3', '{\"h\": 1}', 600)") == 1
    assert value(mq, "select pgmq.send_topic('b', '4')") == 0
    found = rows(mq, "select message, headers from pgmq.q_work order by msg_id")
    assert found == [(1, None), (2, None), (3, {"h": 1})]
    assert len(read(mq)) == 2
    for more in ("", ", 600", ", now() + interval '1 hour'", ", array['{}', '{}']::jsonb[]"):
        call = f"send_batch_topic('a.b', array['1', '2']::jsonb[]{more})"
        sent = rows(mq, f"select queue_name, msg_id from pgmq.{call}")
        assert [row[0] for row in sent] == ["more", "more", "work", "work"]
    assert value(mq, "select pgmq.drop_queue('more')")
    assert value(mq, "select count(*) from pgmq.list_topic_bindings()") == 2


CHECKED = [
    ("validate_routing_key", "a.b-c_d.E9", True),
    ("validate_routing_key", "", False),
    ("validate_routing_key", ".a", False),
    ("validate_routing_key", "a.", False),
    ("validate_routing_key", "a..b", False),
    ("validate_routing_key", "a b", False),
    ("validate_routing_key", "a.*", False),
    ("validate_routing_key", "x" * 255, True),
    ("validate_routing_key", "x" * 256, False),
    ("validate_topic_pattern", "a.*.#", True),
    ("validate_topic_pattern", "#", True),
    ("validate_topic_pattern", "a.**", False),
    ("validate_topic_pattern", "a.##", False),
    ("validate_topic_pattern", "a.*#", False),
    ("validate_topic_pattern", "a.#*", False),
    ("validate_topic_pattern", "a!", False),
    ("validate_topic_pattern", "x" * 256, False),
]


def test_keys_and_patterns_are_checked(mq: Connection) -> None:
    for function, text, good in CHECKED:
        query = f"select pgmq.{function}($1)"
        if good:
            assert value(mq, query, text) is True
        else:
            with pytest.raises(psycopg.errors.RaiseException):
                value(mq, query, text)


def notified(listener: Connection) -> list[str]:
    """The channels of the notifications so far: a statement makes the server send the rest."""
    rows(listener, "select 1")
    return [notify.channel for notify in listener.notifies(timeout=0.3)]


def test_inserts_are_notified(mq: Connection, session: Session) -> None:
    listener = elsewhere(mq, session)
    rows(listener, 'listen "pgmq.q_work.INSERT"')
    send(mq)
    assert notified(listener) == []
    rows(mq, "select pgmq.enable_notify_insert('work', 0)")
    send(mq)
    send(mq)
    assert notified(listener) == ["pgmq.q_work.INSERT"] * 2
    rows(mq, "select pgmq.update_notify_insert('work', 600000)")
    send(mq)
    send(mq)
    assert notified(listener) == ["pgmq.q_work.INSERT"]
    query = "select * from pgmq.list_notify_insert_throttles()"
    [(name, interval, last)] = rows(mq, query)
    assert (name, interval) == ("work", 600000)
    assert last.timestamp() > 0
    rows(mq, "select pgmq.disable_notify_insert('work')")
    send(mq)
    assert notified(listener) == []
    assert rows(mq, query) == []
