"""Ten thousand queues, most of them idle, stay cheap; and so does a look at a large backlog.

Counted in relations, blocks and rows, not in seconds.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

RELATIONS = "select count(*) from pg_class where relnamespace = 'penstock'::regnamespace"


def blocks(engine: Any, query: str, *arguments: Any) -> int:
    """How many blocks a statement, with all that it calls, looks at."""
    plan = engine.value(f"explain (analyze, buffers, format json) {query}", *arguments)
    top = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def warm(engine: Any, query: str, *arguments: Any) -> int:
    """As `blocks`, with the catalogs read and the plans made.

    The least of three: the upkeep of claims falls due by the clock, and reads its own blocks.
    """
    for _ in range(7):
        engine.connection.execute(query, arguments)
    return min(blocks(engine, query, *arguments) for _ in range(3))


def create(engine: Any, first: int, end: int) -> None:
    """In several transactions: one that makes them all would need a lock for each register."""
    query = "select penstock.create_queue('q' || i) from generate_series(%s::int, %s) i"
    for start in range(first, end, 500):
        engine.connection.execute(query, [start, start + 499])


def check_cheap(engine: Any, caller: Any, count: int) -> None:
    create(engine, 0, 500)
    relations, size = engine.value(RELATIONS), engine.bytes()
    query = "select penstock.claim(%s)"
    few = warm(caller(), query, "q7")
    create_blocks = blocks(engine, "select penstock.create_queue('first')")
    create(engine, 500, count)
    per_queue = (engine.value(RELATIONS) - relations - 9) / (count - 500)
    many = warm(caller(), query, f"q{count - 7}")
    created = blocks(engine, "select penstock.create_queue('last')")
    listed = warm(engine, "select count(*) from penstock.queues")
    grown = (engine.bytes() - size) / (count - 500)
    print(
        f"{count} queues: {per_queue} relations and {grown:.0f} bytes each; blocks to claim "
        f"{few} -> {many}, to create {create_blocks} -> {created}, to list {listed}"
    )
    assert per_queue == 9
    assert many <= 2 * few + 20
    assert created <= 2 * create_blocks + 100
    assert listed <= count / 8
    check_delivery(engine, count)


def check_delivery(engine: Any, count: int) -> None:
    """Idle queues do not stand in the way of busy ones, nor of each other."""
    sent = {queue: {engine.enqueue(queue)} for queue in ("q1", f"q{count // 2}", f"q{count - 1}")}
    for queue, messages in sent.items():
        engine.drain(queue, messages)


def check_drop(engine: Any, count: int) -> None:
    relations = engine.value(RELATIONS)
    engine.connection.execute("select penstock.enqueue('q3', '1', priority => 3)")
    query = "select sum(penstock.drop_queue('q' || i, true)) from generate_series(0, 499) i"
    assert engine.value(query) == 1
    assert engine.value(RELATIONS) == relations - 9 * 500
    assert engine.value("select count(*) from penstock.queues") == count - 500 + 2


def test_two_thousand_queues_stay_cheap(engine: Any, caller: Any) -> None:
    check_cheap(engine, caller, 2000)
    check_drop(engine, 2000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_queues_stay_cheap(engine: Any, caller: Any) -> None:
    check_cheap(engine, caller, 10_000)
    check_drop(engine, 10_000)


def check_stats(engine: Any, count: int) -> None:
    engine.create("work")
    engine.create("idle")
    for _ in range(0, count, 10_000):
        engine.enqueue_many("work", 10_000)
    engine.connection.execute(
        """insert into penstock.scheduled (due_at, id, enqueued_at, queue_id, priority, attempt,
             max_attempts, payload)
           select now() + interval '1 day', -i, now(), 1, 0, 0, 5, '1'
           from generate_series(1, %s) i""",
        [count],
    )
    engine.connection.execute("vacuum analyze")
    size = engine.bytes() // 8192
    query = "select penstock.stats(%s)"
    large, idle = warm(engine, query, "work"), warm(engine, query, "idle")
    found = engine.connection.execute("select * from penstock.stats('work')").fetchone()
    print(
        f"{count} ready and scheduled, {size} blocks: {large} blocks read, {idle} for an idle one"
    )
    assert found is not None
    assert tuple(found[1:3]) == (count, count)
    assert not found[6], "counted, not estimated"
    # The deep queue is counted by reading its tables once; an idle one next to it by its indexes.
    assert large < 1.5 * size
    assert idle < 200


def test_a_large_backlog_is_counted_by_one_scan(engine: Any) -> None:
    check_stats(engine, 100_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_huge_backlog_is_counted_by_one_scan(engine: Any) -> None:
    check_stats(engine, 1_000_000)
