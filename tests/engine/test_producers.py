"""Producers do not wait for each other's transactions, and no combination of enqueues deadlocks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def impatient(caller: Any) -> Callable[[], Any]:
    """Callers in transaction blocks that fail where they would have to wait for another's."""
    return lambda: caller(autocommit=False, options="-c lock_timeout=3s")


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ('{"max_depth": 1000}', {}),
        ("{}", {"group_key": "g"}),
        ("{}", {"priority": 3}),
        ("{}", {"ttl": "1 hour"}),
        ("{}", {"delay": "1 hour"}),
        ('{"max_depth": 1000}', {"group_key": "g", "priority": -2, "ttl": "1 hour"}),
    ],
    ids=["depth", "group", "priority", "ttl", "delay", "all"],
)
def test_a_transaction_that_stays_open_holds_up_no_other_producer(
    engine: Any, impatient: Any, settings: str, options: dict[str, Any]
) -> None:
    engine.create("work", settings)
    first, second = impatient(), impatient()
    first.enqueue("work", **options)
    second.enqueue("work", **options)
    second.connection.commit()
    first.connection.commit()
    assert engine.value("select count(*) from penstock.messages") == 2


def test_a_consumer_that_stays_open_holds_up_no_producer_of_its_group(
    engine: Any, impatient: Any
) -> None:
    engine.create("work")
    engine.enqueue("work", group_key="g")
    consumer, producer = impatient(), impatient()
    assert consumer.ack(consumer.claim("work"))  # the group would end here
    late = producer.enqueue("work", group_key="g")
    producer.connection.commit()
    consumer.connection.commit()
    assert [lease[0] for lease in engine.claim("work", 10)] == [late]


def test_a_group_that_is_called_like_a_lane_hides_nothing(engine: Any, impatient: Any) -> None:
    engine.create("work")
    lane = f"a {engine.value('select id from penstock.queue')}/0 b"
    engine.enqueue("work", group_key=lane)
    block = impatient()
    assert block.ack(block.claim("work"))  # announces the end of the group
    noted = "select count(*) from penstock.deferred_1 where kind = 'put'"
    before = block.value(noted)
    late = block.enqueue("work")
    assert block.value(noted) == before + 1
    block.connection.commit()
    assert [lease[0] for lease in engine.claim("work", 10)] == [late]


def test_a_group_is_in_the_order_of_commits(engine: Any, impatient: Any) -> None:
    engine.create("work")
    blocks = [impatient() for _ in range(4)]
    sent = {block: [block.enqueue("work", group_key="g") for _ in range(3)] for block in blocks}
    order = [blocks[2], blocks[0], blocks[3], blocks[1]]
    for block in order:
        block.connection.commit()
    expected = [message for block in order for message in sent[block]]
    came = []
    while leases := engine.claim("work", 10):
        came += [lease[0] for lease in leases]
        engine.ack(leases)
    assert came == expected


def test_transactions_that_join_groups_in_opposite_orders_do_not_deadlock(
    engine: Any, caller: Any, wait_for: Any
) -> None:
    engine.create("work")
    for group in "ab":
        engine.enqueue("work", group_key=group)
    first, second, holder = (caller(autocommit=False) for _ in range(3))
    for group in "ab":
        first.enqueue("work", group_key=group)
    for group in "ba":
        second.enqueue("work", group_key=group)
    holder.value("select 1 from penstock.message_group where group_key = 'a' for update")
    waiting = """select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock'"""
    with ThreadPoolExecutor() as pool:
        commits = []
        for block in (first, second):
            commits.append(pool.submit(block.connection.commit))
            wait_for(lambda: engine.value(waiting) == len(commits), "the commit waits")
        holder.connection.rollback()
        for commit in commits:
            commit.result()
    assert engine.value("select count(*) from penstock.messages") == 6


def test_a_message_of_a_group_can_be_cancelled_before_its_commit(
    engine: Any, impatient: Any
) -> None:
    engine.create("work")
    block = impatient()
    kept = block.enqueue("work", group_key="g")
    dropped = block.enqueue("work", group_key="g")
    block.value("select penstock.cancel(%s)", dropped)
    block.connection.commit()
    assert [lease[0] for lease in engine.claim("work", 10)] == [kept]


def test_what_a_deferred_trigger_enqueues_joins_its_group(engine: Any, impatient: Any) -> None:
    """It comes after ours have been placed already."""
    engine.create("work")
    engine.connection.execute(
        "create table public.orders (id int);"
        " create function public.order_made() returns trigger language plpgsql as $$ begin"
        "   perform penstock.enqueue('work', '1', group_key => 'g');"
        "   perform penstock.enqueue('work', '2'); return null; end $$;"
        " create constraint trigger made after insert on public.orders deferrable initially"
        " deferred for each row execute function public.order_made()"
    )
    block = impatient()
    block.enqueue("work", group_key="g")
    block.connection.execute("insert into public.orders values (1)")
    block.enqueue("work")
    block.connection.commit()
    came = 0
    for _ in range(4):
        leases = engine.claim("work", 10)
        came += len(engine.ack(leases))
    assert came == 4


class Crowd:
    """Threads that run until a moment; the first error of any of them is raised."""

    def __init__(self, dsn: str, seconds: float) -> None:
        self.dsn = dsn
        self.until = time.monotonic() + seconds
        self.errors: list[BaseException] = []

    def run(
        self, count: int, act: Callable[[psycopg.Connection[Any], random.Random], None]
    ) -> None:
        def body(seed: int) -> None:
            chance = random.Random(seed)
            try:
                with psycopg.connect(self.dsn) as connection:
                    while time.monotonic() < self.until and not self.errors:
                        act(connection, chance)
            except BaseException as error:
                self.errors.append(error)

        threads = [threading.Thread(target=body, args=[seed]) for seed in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


MIXED = """
select penstock.enqueue('work', '1', group_key => %s, priority => %s, key => %s)
"""


def mixed(connection: psycopg.Connection[Any], chance: random.Random) -> None:
    """A transaction of 1 to 20 messages, of 20 groups, 3 priorities, and unique keys."""
    for _ in range(chance.randint(1, 20)):
        group = chance.choice([None, f"g{chance.randrange(20)}"])
        key = chance.choice([None, None, f"k{chance.random()}"])
        connection.execute(MIXED, [group, chance.choice([0, 1, -3]), key])
    if chance.random() < 0.1:
        connection.rollback()
    connection.commit()


def consume(connection: psycopg.Connection[Any], chance: random.Random) -> None:
    query = "select id, token from penstock.claim('work', %s)"
    leases = connection.execute(query, [chance.randint(1, 30)]).fetchall()
    for message, token in leases:
        connection.execute("select penstock.ack(%s, %s)", [message, token])
    connection.commit()


@pytest.mark.parametrize(
    "seconds", [5, pytest.param(300, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_a_mixed_load_has_no_deadlock(engine: Any, dsn: str, seconds: float) -> None:
    engine.create("work")
    act = [mixed, mixed, consume]
    crowd = Crowd(dsn, seconds)

    def either(connection: psycopg.Connection[Any], chance: random.Random) -> None:
        act[chance.randrange(3)](connection, chance)

    crowd.run(18, either)
    query = "select deadlocks from pg_stat_database where datname = current_database()"
    assert engine.value(query) == 0
    assert engine.value("select penstock.rescans_that_found()") == 0


LIMIT = 40


class Journal:
    """How deep the queue is at least: a message counts from the return of its commit to the start
    of its ack."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.wrong: list[str] = []
        self.refused = 0

    def change(self, count: int) -> None:
        with self.lock:
            self.depth += count
            if self.depth > LIMIT:
                self.wrong.append(f"{self.depth} of {LIMIT}")

    def act(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """What a thread does, again and again: it mostly produces."""
        act = self.produce if chance.random() < 0.85 else self.take
        act(connection, chance)

    def produce(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        count = chance.randint(1, 4)
        try:
            for _ in range(count):
                connection.execute("select penstock.enqueue('work', '1')")
            time.sleep(chance.choice([0, 0, 0.001, 0.02]))
        except psycopg.Error as error:
            if error.sqlstate != "PS008":
                raise
            connection.rollback()
            self.refused += 1
            return
        if chance.random() < 0.2:
            connection.rollback()
            return
        connection.commit()
        self.change(count)

    def take(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        query = "select id, token from penstock.claim('work', %s)"
        leases = connection.execute(query, [chance.randint(1, 10)]).fetchall()
        connection.commit()
        if leases:
            self.change(-len(leases))
            ids, tokens = zip(*leases, strict=True)
            query = "select penstock.ack_many(%s::bigint[], %s::bigint[])"
            connection.execute(query, [list(ids), list(tokens)])
            connection.commit()


@pytest.mark.parametrize(
    "seconds", [5, pytest.param(60, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_max_depth_is_never_exceeded_by_producers_that_hammer_it(
    engine: Any, dsn: str, seconds: float
) -> None:
    engine.create("work", f'{{"max_depth": {LIMIT}, "keep_history": 0}}')
    journal = Journal()
    Crowd(dsn, seconds).run(32, journal.act)
    assert not journal.wrong
    assert journal.refused > 0
    # All transactions have ended: the rest of the room can be had, to the last message.
    held = engine.value("select count(*) from penstock.messages")
    for _ in range(LIMIT - held):
        engine.enqueue("work")
    with pytest.raises(psycopg.Error, match="full"):
        engine.enqueue("work")


def test_messages_of_open_transactions_take_up_room(engine: Any, impatient: Any) -> None:
    engine.create("work", '{"max_depth": 2, "keep_history": 0}')
    first, second = impatient(), impatient()
    first.enqueue("work")
    second.enqueue("work")
    with pytest.raises(psycopg.Error, match="full"):
        engine.enqueue("work")
    first.connection.rollback()
    engine.enqueue("work")
    second.connection.commit()
    assert engine.value("select count(*) from penstock.messages") == 2


def test_a_queue_with_room_refuses_nobody(engine: Any, dsn: str) -> None:
    """The bound is reached again and again, though there is always room."""
    engine.create("work", '{"max_depth": 200, "keep_history": 0}')
    crowd = Crowd(dsn, 4)

    def cycle(connection: psycopg.Connection[Any], chance: random.Random) -> None:
        for _ in range(chance.randint(1, 5)):
            connection.execute("select penstock.enqueue('work', '1')")
        if chance.random() < 0.3:
            connection.rollback()
        connection.commit()
        consume(connection, chance)

    crowd.run(12, cycle)  # at most 60 messages are there at any moment, and some leased ones
