"""Late messages are delivered: floors are hints, and hide nothing for long.

The bar is two seconds from the moment a message became available. The delays are printed
(`pytest -rP` shows them); what is asserted is that everything comes, within a generous limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

FAR_AHEAD = 2**52  # as a position, and as microseconds: the year 2112


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[float], None]:
    def say(delay: float) -> None:
        print(f"{request.node.name}: delivered {delay * 1000:.0f} ms after it became available")

    return say


@pytest.fixture(params=[0, 1000], ids=["drained", "backlog"])
def busy(request: pytest.FixtureRequest, engine: Any, pinned: str, traffic: Any) -> Any:
    """A busy queue `work`: with a backlog no claim ever comes back short."""
    engine.create("work")
    return traffic("work", backlog=request.param)


def test_a_slow_committer_is_delivered_though_floors_have_passed_it(
    engine: Any, other: Any, busy: Any, wait_for: Any, report: Any
) -> None:
    late = other.enqueue("work")
    busy.passed(500)
    wait_for(lambda: engine.floor("work") > late, "the floor is past the message")
    other.connection.commit()
    report(busy.delay({late}, time.monotonic()))


with_backlog = pytest.mark.parametrize("busy", [1000], ids=["backlog"], indirect=True)


@with_backlog
def test_a_claim_that_is_rolled_back_gives_its_messages_back(
    other: Any, busy: Any, report: Any
) -> None:
    taken = set()
    for _ in range(5):  # the later of them see the earlier ones' messages as gone
        taken |= {lease[0] for lease in other.claim("work", 3)}
        busy.passed(100)
    other.connection.rollback()
    assert taken
    report(busy.delay(taken, time.monotonic()))


@with_backlog
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_claim_that_ends_after_its_lease_ran_out_loses_nothing(
    other: Any, busy: Any, end: str, wait_for: Any, report: Any
) -> None:
    taken = {lease[0] for lease in wait_for(lambda: other.claim("work", 3, 1), "a claim")}
    until = time.monotonic() + 1
    wait_for(lambda: time.monotonic() > until, "the lease to expire")
    busy.passed(500)
    getattr(other.connection, end)()
    report(busy.delay(taken, time.monotonic()))


@with_backlog
def test_the_messages_of_a_claimer_whose_connection_is_cut_come_back(
    engine: Any, other: Any, busy: Any, wait_for: Any, report: Any
) -> None:
    taken = {lease[0] for lease in wait_for(lambda: other.claim("work", 3), "a claim")}
    busy.passed(200)
    engine.value("select pg_terminate_backend(%s)", other.connection.info.backend_pid)
    report(busy.delay(taken, time.monotonic()))
    with pytest.raises(psycopg.OperationalError):
        other.connection.execute("select 1")


@pytest.fixture
def long_claim(engine: Any, other: Any) -> Callable[[], Any]:
    """A claim with all upkeep due, in a transaction that stays open."""
    engine.create("own")
    engine.enqueue("own")

    def begin() -> Any:
        engine.value("select setval('penstock.tick_at', 0) + setval('penstock.ring_check_at', 0)")
        return other.claim("own")

    # Once before: what a session runs for the first time is slow, and must not hide anything.
    begin()
    other.connection.rollback()
    return begin


def test_a_claim_in_a_long_transaction_holds_up_nothing_that_falls_due(
    engine: Any, long_claim: Any, wait_for: Any
) -> None:
    engine.create("others")
    due = {engine.enqueue("others", delay="50 milliseconds") for _ in range(20)}
    ran_out = {engine.enqueue("others")}
    assert engine.claim("others", 1, 1)
    query = """select count(*) from penstock.messages
               where queue = 'others' and state = 'ready'"""
    wait_for(lambda: engine.value(query) == 21, "all of it due, none of it moved")
    assert long_claim()
    engine.drain("others", due | ran_out)


def test_a_claim_that_finds_more_due_than_it_takes_leaves_the_rest_to_others(
    engine: Any, other: Any, wait_for: Any
) -> None:
    engine.create("work")
    due = {engine.enqueue("work", delay="50 milliseconds") for _ in range(20)}
    query = "select count(*) from penstock.messages where state = 'ready'"
    wait_for(lambda: engine.value(query) == 20, "all of it due")
    other.value("select 1")
    taken = other.claim("work", 1)
    assert len(taken) == 1
    engine.drain("work", due - {taken[0][0]})


def test_a_claim_in_a_long_transaction_locks_no_segment(
    engine: Any, long_claim: Any, caller: Any
) -> None:
    engine.create("others")
    engine.enqueue("others")
    leases = engine.claim("others", 1, 600)
    engine.rotate()  # what is leased there is all that is left in the old segment
    assert long_claim()
    impatient = caller(options="-c lock_timeout=30s")
    assert impatient.ack(leases) == {leases[0][0]}
    impatient.enqueue("others", key="looks at every segment")
    impatient.rotate()


@pytest.mark.parametrize("backlog", [2000, 0], ids=["backlog", "drained"])
def test_a_claim_in_a_long_transaction_locks_nothing_that_others_hold(
    engine: Any, other: Any, traffic: Any, backlog: int, report: Any
) -> None:
    engine.create("work")
    busy = traffic("work", backlog)
    taken = set()
    for _ in range(500):  # some of them reach messages in the moment in which others take those
        taken |= {lease[0] for lease in other.claim("work", 3)}
    busy.passed(3000)  # more than there were: a session that still held one of them would wait now
    other.connection.rollback()
    report(busy.delay(taken, time.monotonic()))


def test_an_old_snapshot_moves_no_floor(engine: Any, caller: Any) -> None:
    engine.create("work")
    engine.drain("work", {engine.enqueue("work")})
    old = caller(autocommit=False)
    old.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    old.value("select count(*) from penstock.queue")
    sent = set(engine.enqueue_many("work", 100))
    for _ in range(20):
        old.value("select setval('penstock.sweep_1', 0)")
        assert not old.claim("work")
    assert engine.floor("work") <= min(sent)
    engine.drain("work", sent)


def test_corrupted_floors_hide_nothing(engine: Any, wait_for: Any, pinned: str) -> None:
    engine.create("work")
    query = "select count(*) from penstock.messages where state = 'ready'"
    sent = set(engine.enqueue_many("work", 10))
    leases = engine.claim("work", 5, 1)
    sent |= {engine.enqueue("work", delay="50 milliseconds", priority=1) for _ in range(5)}
    engine.value("select penstock._adopt_lanes()")  # as the next claim does when it commits
    wait_for(lambda: engine.value(query) == 15, "all of it due")
    for register in ("lease_floor", "due_floor", "floor_1_0", "floor_1_1"):
        engine.value(f"select setval('penstock.{register}', {FAR_AHEAD})")
    assert len(leases) == 5
    engine.drain("work", sent)
    more = set(engine.enqueue_many("work", 10))
    engine.drain("work", more)


def test_a_segment_that_the_ring_does_not_list_is_taken_in_again(engine: Any) -> None:
    engine.create("work")
    body = '"' + "x" * 2000 + '"'
    sent = {engine.enqueue("work"), engine.enqueue("work", body)}
    assert engine.claim("work", 1, 1)
    engine.rotate()
    current = engine.ring()[1][-1]
    engine.value("select setval('penstock.ring', %s)", int(f"9{current}"))
    assert engine.value("select penstock.maintain(true) ->> 'segments_adopted'") == "1"
    engine.drain("work", sent)
    assert engine.value("select count(*) from penstock.messages") == 0
