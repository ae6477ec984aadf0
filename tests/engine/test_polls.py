"""Polls of an empty queue stop looking for expired leases until the next sweep, and miss none."""

from __future__ import annotations

from typing import Any

import pytest

IS_QUIET = """
    select sweep_us & 1 = 1 and to_timestamp(sweep_us / 1e6) > clock_timestamp()
    from (select pg_sequence_last_value(sweep_register) as sweep_us
          from penstock.queue where name = %s) q"""
SHORTEN = """select penstock._amend_by_id(id, %s, null, clock_timestamp(), null)
             from penstock.queue where name = %s"""


@pytest.fixture
def queue(engine: Any) -> str:
    engine.create("work")
    engine.claim("work")  # the first claim of a session leaves upkeep to others
    return "work"


def poll_until_quiet(engine: Any, queue: str, wait_for: Any) -> None:
    """Polls until the register says that no lease expires before the next sweep."""

    def is_quiet() -> bool:
        assert engine.claim(queue) == []
        return bool(engine.value(IS_QUIET, queue))

    wait_for(is_quiet, "a poll notes that no lease is about to expire")


def claim_by_id(engine: Any, queue: str) -> Any:
    query = "select id from penstock._claim_by_id(%s, 1, 3600)"
    return engine.value(query, queue)


def test_the_first_poll_after_a_lease_expired_hands_the_message_out(
    engine: Any, queue: str, wait_for: Any
) -> None:
    message = engine.enqueue(queue)
    assert [id for id, _ in engine.claim(queue, 1, 1)] == [message]
    until = engine.value("select lease_until from penstock.messages where id = %s", message)
    poll_until_quiet(engine, queue, wait_for)
    while True:
        began = engine.value("select clock_timestamp()")
        if found := engine.claim(queue):
            break
        assert began <= until, "a poll that began after the end of the lease found nothing"
    assert [id for id, _ in found] == [message]


def test_a_lease_that_is_cut_short_is_found_by_the_next_poll(
    engine: Any, queue: str, wait_for: Any
) -> None:
    message = engine.enqueue(queue)
    assert claim_by_id(engine, queue) == message
    poll_until_quiet(engine, queue, wait_for)
    assert engine.value(SHORTEN, message, queue)
    assert [id for id, _ in engine.claim(queue)] == [message]


def test_polls_beside_a_transaction_that_cuts_a_lease_short_keep_looking(
    engine: Any, other: Any, queue: str, wait_for: Any
) -> None:
    message = engine.enqueue(queue)
    assert claim_by_id(engine, queue) == message
    poll_until_quiet(engine, queue, wait_for)
    assert other.value(SHORTEN, message, queue)  # not committed
    for _ in range(20):
        assert engine.claim(queue) == []
        assert not engine.value(IS_QUIET, queue)
    other.connection.commit()
    assert [id for id, _ in engine.claim(queue)] == [message]


def test_polls_skip_the_lane_only_if_nothing_was_enqueued_since(
    engine: Any, queue: str, wait_for: Any
) -> None:
    for _ in range(20):
        poll_until_quiet(engine, queue, wait_for)
        message = engine.enqueue(queue)
        leases = engine.claim(queue)
        assert [id for id, _ in leases] == [message]
        engine.ack(leases)


def test_polls_that_find_nothing_take_no_transaction_ids(
    engine: Any, queue: str, caller: Any
) -> None:
    """A transaction id makes a poll wait for the disk when it commits.

    Upkeep does once a minute.
    """
    engine.ack(
        [lease for _ in range(3) for lease in (engine.enqueue(queue), engine.claim(queue))[1]]
    )
    poller = caller(autocommit=False)
    taken = swept = 0
    for _ in range(20):
        engine.value("select setval('penstock.sweep_1', 0) + setval('penstock.tick_at', 0)")
        assert poller.claim(queue) == []
        taken += poller.value("select pg_current_xact_id_if_assigned() is not null")
        swept += engine.value("select last_value > 0 from penstock.sweep_1")
        poller.connection.commit()
    assert swept == 20
    assert taken <= 1


def test_polls_of_a_queue_beside_a_busy_one_take_no_transaction_ids(
    engine: Any, queue: str, caller: Any
) -> None:
    """They look into the lane, because any queue may have got a message since the last sweep."""
    engine.value("select penstock.create_queue('busy')")
    poller = caller(autocommit=False)
    poller.claim(queue)
    poller.connection.commit()
    looked = taken = 0
    for _ in range(100):
        engine.value("select penstock.enqueue('busy', '1')")
        looked += poller.value("""
            select last_value <= (select last_value from penstock.position) from penstock.floor_1_0
        """)
        assert poller.claim(queue) == []
        taken += poller.value("select pg_current_xact_id_if_assigned() is not null")
        poller.connection.commit()
    assert looked == 100
    assert taken <= 1
