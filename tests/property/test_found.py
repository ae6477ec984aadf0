"""What the runs of this folder found in the engine, each as small as it got. No such bug again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.held import RUN_OUT

Connect = Callable[..., psycopg.Connection[Any]]


class Caller:
    """One session: calls functions by name, and never waits long for another one's lock."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.notices: list[str] = []
        connection.execute("set lock_timeout = '5s'")
        connection.execute("set statement_timeout = '60s'")
        connection.execute("set client_min_messages = log")
        connection.add_notice_handler(lambda n: self.notices.append(n.message_primary or ""))

    def rows(self, query: str, *params: Any) -> list[Any]:
        return self.connection.execute(query, params).fetchall()  # type: ignore[arg-type]

    def do(self, query: str, *params: Any) -> None:
        self.connection.execute(query, params)  # type: ignore[arg-type]

    def value(self, query: str, *params: Any) -> Any:
        return self.rows(query, *params)[0][0]

    def claim(self, count: int = 1, queue: str = "q") -> list[Any]:
        return self.rows("select id, token from penstock.claim(%s, %s)", queue, count)

    def claimed(self, count: int = 1, queue: str = "q") -> list[int]:
        return [lease[0] for lease in self.claim(count, queue)]

    def enqueue(self, **options: Any) -> int:
        names = ", ".join(f"{name} => %s" for name in options)
        query = f"select penstock.enqueue('q', '1'{', ' if names else ''}{names})"
        return int(self.value(query, *options.values()))

    def let_leases_run_out(self) -> None:
        self.do(RUN_OUT)

    def stop_clocks(self) -> None:
        """No upkeep by claims for the next moments: registers further ahead count as unset.

        The lowest bit of a sweep register is 0: claims look for expired leases.
        """
        self.do(
            "select setval('penstock.tick_at', soon), setval(sweep_register, soon)"
            " from penstock.queue,"
            " (select (extract(epoch from now()) * 1e6)::bigint + 900000 & ~1::bigint as soon) x"
        )


@pytest.fixture
def callers(connect: Connect) -> tuple[Caller, Caller, Caller]:
    callers = tuple(Caller(connect()) for _ in range(3))
    callers[0].do("select penstock.create_queue('q')")
    return callers  # type: ignore[return-value]


Callers = tuple[Caller, Caller, Caller]


def test_a_group_waits_for_its_next_message_while_that_is_being_cancelled(callers: Callers) -> None:
    one, two, _ = callers
    first, second = one.enqueue(group_key="g"), one.enqueue(group_key="g")
    two.do("begin")
    two.do("select penstock.cancel(%s)", first)
    assert one.claimed(2) == []  # and not forever: it took the same group token again and again
    two.do("rollback")
    one.do("update penstock.scheduled set due_at = clock_timestamp()")
    assert one.claimed(2) == [first]
    one.do("select penstock.cancel(%s)", first)
    assert one.claimed(2) == [second]


def test_a_group_waits_for_its_next_message_while_that_is_being_replaced(callers: Callers) -> None:
    one, two, _ = callers
    first = one.enqueue(group_key="g", key="k")
    one.enqueue(group_key="g")
    two.do("begin")
    two.enqueue(key="k", payload_bytes=None)
    assert one.claimed(2) == []
    two.do("commit")
    one.do("update penstock.scheduled set due_at = clock_timestamp()")
    assert one.claimed(2) == [first]


@pytest.mark.parametrize("way", ["cancel", "purge", "expire"])
def test_a_group_goes_on_when_the_delayed_message_it_waited_for_is_gone(
    callers: Callers, way: str
) -> None:
    one = callers[0]
    delayed = one.enqueue(group_key="g", delay="1 hour", ttl="1 hour")
    if way == "cancel":
        one.do("select penstock.cancel(%s)", delayed)
    elif way == "purge":
        one.do("select penstock.purge('q')")
    else:
        one.do("update penstock.grouped set expires_at = clock_timestamp()")
        one.do("select penstock.maintain(true)")
    following = one.enqueue(group_key="g")
    assert one.claimed() == [following]


def test_a_group_goes_on_when_its_delayed_message_was_being_cancelled(callers: Callers) -> None:
    one, two, _ = callers
    first = one.enqueue(group_key="g")
    [(_, token)] = one.claim()
    delayed = one.enqueue(group_key="g", delay="1 hour")
    two.do("begin")
    two.do("select penstock.cancel(%s)", delayed)
    one.do(
        "select penstock.ack(%s, %s)", first, token
    )  # whose group token then waits for the delayed
    two.do("commit")
    following = one.enqueue(group_key="g")
    one.do(
        "update penstock.scheduled set due_at = clock_timestamp()"
        " where due_at < clock_timestamp() + interval '1 minute'"
    )
    assert one.claimed() == [following]


@pytest.mark.parametrize("on_conflict", ["replace", "skip", "error"])
def test_what_is_enqueued_with_the_key_of_an_expired_message_is_delivered(
    callers: Callers, on_conflict: str
) -> None:
    one = callers[0]
    old = one.enqueue(key="k", ttl="1 hour")
    one.do("update penstock.lane_1 set expires_at = clock_timestamp()")
    new = one.enqueue(key="k", on_conflict=on_conflict)
    assert new != old
    assert one.claimed(2) == [new]
    assert one.rows("select id, state from penstock.history") == [(old, "expired")]


def test_a_claim_does_not_wait_for_an_enqueuer_who_holds_a_key_nobody_had(callers: Callers) -> None:
    one, two, _ = callers
    old = one.enqueue(key="k")
    one.claim()
    newer = one.enqueue(key="k")
    [(_, token)] = one.claim()
    one.do("select penstock.ack(%s, %s)", newer, token)
    two.do("begin")
    newest = two.enqueue(key="k")
    one.let_leases_run_out()
    assert one.claimed() == []
    two.do("commit")
    # The newest has the key; once it is claimed, the old one may come back.
    assert one.claimed(2) in ([newest], [newest, old])


def test_a_claim_does_not_wait_for_who_holds_the_older_message_with_a_key(callers: Callers) -> None:
    one, two, three = callers
    older = one.enqueue(key="k")
    [(_, token)] = one.claim()
    newer = one.enqueue(key="k")
    one.claim()
    one.do("select penstock.nack(%s, %s, null, '0')", older, token)
    two.do("begin")
    assert two.claimed() == [older]
    one.let_leases_run_out()
    assert three.claimed() == []
    two.do("commit")
    assert three.claimed() == [newer]


def test_the_upkeep_of_a_commit_leaves_the_segment_of_its_own_trigger_alone(
    callers: Callers,
) -> None:
    one, two, _ = callers
    two.do("begin")
    one.do("select setval('penstock.tick_at', 0), setval('penstock.upkeep_at', 0)")
    two.claim()
    for _ in range(2):
        one.do("select setval('penstock.ring_until', 0)")
        one.do("select penstock._rotate()")
        one.do("select penstock._tend_ring()")
    for n in range(1, 9):
        one.do(f"select setval('penstock.drained_{n}', 1)")
    two.do("commit")
    assert not two.notices


def test_the_first_group_of_a_queue_reaches_a_claim_under_way_whole(callers: Callers) -> None:
    one, two, three = callers
    one.claim()
    one.stop_clocks()
    two.do("begin")
    two.do("lock table penstock.grant_1 in access exclusive mode")
    leases: list[Any] = []
    three.do("set lock_timeout = '60s'")  # it waits until we have seen that it does
    three.do("set penstock.alone = on")  # then it looks for messages once it has its tables
    thread = threading.Thread(target=lambda: leases.extend(three.claimed(5)))
    thread.start()
    waiting = (
        "select 1 from pg_locks join pg_database on pg_database.oid = database"
        " where not granted and datname = current_database()"
    )
    while not one.rows(waiting):
        pass  # the claim has seen a queue without groups, and waits for the table
    message = one.enqueue(group_key="g")
    two.do("rollback")
    thread.join()
    assert leases == [message]


def test_a_dead_letter_whose_lease_ran_out_is_there_for_the_next_claim(callers: Callers) -> None:
    one = callers[0]
    message = one.enqueue()
    [(_, token)] = one.claim()
    one.do("select penstock.reject(%s, %s)", message, token)
    assert one.claimed(queue="q.dlq") == [message]
    one.let_leases_run_out()
    assert one.claimed(queue="q.dlq") == [message]


def test_a_ring_without_a_free_segment_keeps_the_order(callers: Callers) -> None:
    one = callers[0]
    first = one.enqueue()
    for _ in range(10):
        one.do("select setval('penstock.ring_until', 0)")
        one.do("select penstock._rotate()")
    one.enqueue()
    one.stop_clocks()
    assert one.claimed() == [first]
