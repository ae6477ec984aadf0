"""Blocks that were open for long move their messages to the end of the lane when they commit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.late import late_from


@pytest.fixture
def passed(engine: Any, wait_for: Any) -> Any:
    """Lets so many messages pass through a queue, until its floor is above all of them."""

    def passed(queue: str, count: int) -> int:
        ids = []
        for _ in range(0, count, 1000):
            ids += engine.enqueue_many(queue, min(count, 1000))
        engine.drain(queue, set(ids))

        def is_above() -> bool:
            engine.claim(queue)
            return bool(engine.floor(queue) > ids[-1])

        wait_for(is_above, "the floor is above the messages")
        return int(engine.floor(queue))

    return passed


def positions(engine: Any, ids: list[int]) -> list[int]:
    """The positions of ready messages, from any segment."""
    parts = " union all ".join(f"select id, position from penstock.ready_{n}" for n in range(9))
    query = f"select position from ({parts}) r where id = any (%s) order by id"
    return [row[0] for row in engine.connection.execute(query, [ids])]


def test_a_block_that_falls_far_behind_does_not_lower_the_floor(
    engine: Any, other: Any, passed: Any
) -> None:
    engine.create("work")
    late = [other.enqueue("work", str(n)) for n in range(3)]
    floor = passed("work", 5000)
    other.connection.commit()
    assert engine.floor("work") >= floor
    moved = positions(engine, late)
    assert moved == sorted(moved)
    assert moved[0] >= floor
    assert [lease[0] for lease in engine.claim("work", 10)] == late
    assert engine.value("select penstock.rescans_that_found()") == 0


def test_a_block_that_is_a_little_late_keeps_its_positions(
    engine: Any, other: Any, passed: Any
) -> None:
    engine.create("work")
    late = other.enqueue("work")
    passed("work", 500)
    other.connection.commit()
    assert positions(engine, [late]) == [late]
    assert engine.floor("work") <= late
    assert [lease[0] for lease in engine.claim("work", 10)] == [late]


def test_a_moved_message_keeps_everything_else(engine: Any, other: Any, passed: Any) -> None:
    late_from(engine.connection, 0)
    engine.create("work", json.dumps({"keep_history": 0, "max_depth": 100}))
    big = json.dumps("x" * 20_000)
    ids = [
        other.enqueue("work", big, headers='{"h": 1}', key="k", max_attempts=7),
        other.enqueue("work", ttl="1 hour"),
    ]
    query = """select id, payload, headers, key, max_attempts, enqueued_at, expires_at, attempt
               from penstock.messages where id = any (%s) order by id"""
    before = other.connection.execute(query, [ids]).fetchall()
    floor = passed("work", 50)
    other.connection.commit()
    assert engine.connection.execute(query, [ids]).fetchall() == before
    assert min(positions(engine, ids)) >= floor
    assert engine.enqueue("work", "2", key="k", on_conflict="skip") == ids[0]
    assert engine.ack(engine.claim("work", 10)) == set(ids)


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_messages_of_every_segment_lane_and_savepoint_come(
    engine: Any, other: Any, passed: Any, turns: int
) -> None:
    late_from(engine.connection, 0)
    for _ in range(5):  # later segments then have lower numbers
        engine.rotate()
        engine.tend()
    engine.create("work")
    engine.create("second")
    engine.enqueue("work", priority=5)
    engine.drain("work", set())
    first = other.enqueue("work", priority=5)
    late = {"work": [other.enqueue("work")], "second": [other.enqueue("second")]}
    other.connection.execute("savepoint s")
    other.enqueue("work")
    other.connection.execute("rollback to s")
    late["work"] += other.enqueue_many("work", 5)
    for _ in range(turns):
        engine.rotate()
        for queue, ids in late.items():
            ids.append(other.enqueue(queue))
    other.connection.execute("savepoint t")
    late["work"].append(other.enqueue("work"))
    other.connection.execute("release t")
    for queue in late:
        passed(queue, 20)
    other.connection.commit()
    assert [lease[0] for lease in engine.claim("work", 100)] == [first, *late["work"]]
    assert [lease[0] for lease in engine.claim("second", 100)] == late["second"]
    assert engine.value("select penstock.rescans_that_found()") == 0


def test_a_block_with_many_messages_lowers_the_floor_to_the_rest(
    engine: Any, other: Any, passed: Any
) -> None:
    late_from(engine.connection, 0)
    engine.create("work")
    late = other.enqueue_many("work", 250)
    floor = passed("work", 50)
    other.connection.commit()
    places = positions(engine, late)
    assert [place >= floor for place in places] == [True] * 100 + [False] * 150
    assert engine.floor("work") <= late[100]
    assert {lease[0] for lease in engine.claim("work", 1000)} == set(late)


def test_groups_keep_their_order(engine: Any, other: Any, passed: Any) -> None:
    late_from(engine.connection, 0)
    engine.create("work")
    late = [other.enqueue("work", group_key="g") for _ in range(3)]
    passed("work", 50)
    other.connection.commit()
    assert [engine.drain("work", {id}) for id in late] == [[id] for id in late]


def test_a_prepared_transaction_is_delivered(engine: Any, other: Any, passed: Any) -> None:
    late_from(engine.connection, 0)
    engine.create("work")
    late = other.enqueue("work")
    passed("work", 50)
    other.connection.execute("prepare transaction 'late'")
    passed("work", 50)
    other.connection.autocommit = True
    other.connection.execute("commit prepared 'late'")
    assert [lease[0] for lease in engine.claim("work", 10)] == [late]
