"""A message is handed out by the first claim after its transaction has committed.

The queue is busy meanwhile: floors rise with every sweep, and sweeps are made to happen
here as often as they can. The safety net must have found nothing.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

NAP_MS = 6  # a sweep begins a new generation every 5 ms
# As if timers had been looked for everywhere just now.
NO_TIMER_RESCAN = """
    select setval('penstock.timer_rescan_at',
                  (date_part('epoch', clock_timestamp()) * 1e6)::bigint + 1900000)"""


class Sweeper:
    """Sweeps a queue by a separate clock, which moves on by 6 ms each time."""

    def __init__(self, engine: Any, queue: str) -> None:
        self.engine = engine
        self.queue = queue
        self.now_us = int(time.time() * 1e6)

    def sweep(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_us += NAP_MS * 1000
            self.engine.value(
                "select penstock._sweep(penstock._with_lanes(q), %s) is not null"
                " from penstock.queue q where q.name = %s",
                self.now_us,
                self.queue,
            )


@pytest.fixture
def work(engine: Any) -> Iterator[str]:
    engine.create("work")
    yield "work"
    assert engine.value("select penstock.rescans_that_found()") == 0


@pytest.fixture
def sweeper(engine: Any, work: str) -> Sweeper:
    return Sweeper(engine, work)


def pass_by(engine: Any, sweeper: Sweeper, count: int = 20) -> None:
    """Messages come and go, and the floor follows them."""
    for _ in range(count):
        engine.enqueue("work")
        engine.ack(engine.claim("work", 100))
        sweeper.sweep()


def ids(leases: list[Any]) -> set[int]:
    return {lease[0] for lease in leases}


def test_a_transaction_block_is_found_though_floors_had_passed_it(
    engine: Any, other: Any, sweeper: Sweeper
) -> None:
    late = other.enqueue("work")
    pass_by(engine, sweeper)
    assert engine.floor("work") > late
    other.connection.commit()
    assert ids(engine.claim("work", 10)) == {late}


@pytest.mark.parametrize("priority", [0, 3])
def test_a_block_that_enqueued_into_an_older_segment_is_found(
    engine: Any, other: Any, sweeper: Sweeper, priority: int
) -> None:
    late = other.enqueue("work", priority=priority)
    engine.rotate()
    pass_by(engine, sweeper)
    engine.value("select penstock._close_segments()")
    pass_by(engine, sweeper)
    other.connection.commit()
    assert ids(engine.claim("work", 10)) == {late}


def test_many_messages_of_a_block_are_all_found(engine: Any, other: Any, sweeper: Sweeper) -> None:
    late = set(other.enqueue_many("work", 50))
    pass_by(engine, sweeper, 5)
    late |= {other.enqueue("work") for _ in range(10)}
    pass_by(engine, sweeper, 5)
    late |= set(other.enqueue_many("work", 50))
    pass_by(engine, sweeper, 5)
    other.connection.commit()
    assert ids(engine.claim("work", 1000)) == late


def test_a_savepoint_that_is_rolled_back_hides_nothing(
    engine: Any, other: Any, sweeper: Sweeper
) -> None:
    other.connection.execute("savepoint one")
    other.enqueue("work")
    other.connection.execute("rollback to savepoint one")
    late = other.enqueue("work")
    pass_by(engine, sweeper)
    other.connection.commit()
    assert ids(engine.claim("work", 10)) == {late}


@pytest.mark.parametrize("sweeps", [3, 60], ids=["waited for", "set aside"])
def test_a_slow_statement_in_autocommit_is_found(
    engine: Any, caller: Any, sweeper: Sweeper, wait_for: Any, sweeps: int
) -> None:
    """Its transaction is open for as long as it runs, or as its commit takes."""
    slow = caller()
    engine.value("select pg_advisory_lock(1)")
    statement = "select penstock.enqueue('work', '1'), pg_advisory_xact_lock(1)"
    thread = threading.Thread(target=lambda: slow.connection.execute(statement))
    thread.start()
    # Other tests wait for advisory locks in other databases of the same server.
    waiting = """select count(*) from pg_locks join pg_database on pg_database.oid = database
        where locktype = 'advisory' and not granted and datname = current_database()"""
    wait_for(lambda: engine.value(waiting) == 1, "the statement waits")
    pass_by(engine, sweeper, sweeps)
    aside = engine.value("select last_value >> 6 & 255 from penstock.generation_1")
    assert aside != 0 or sweeps < 50
    engine.value("select pg_advisory_unlock(1)")
    thread.join()
    assert len(engine.claim("work", 10)) == 1


def test_many_generations_can_be_set_aside(engine: Any, caller: Any, sweeper: Sweeper) -> None:
    """More of them than there are generations: then floors wait, and still hide nothing."""
    late: list[Any] = []
    for _ in range(9):
        block = caller(autocommit=False)
        block.enqueue("work")
        block.connection.execute("set constraints all immediate")  # as a prepared transaction
        late.append(block)
        pass_by(engine, sweeper, 25)
    for block in late:
        block.connection.commit()
        assert len(engine.claim("work", 10)) == 1
        pass_by(engine, sweeper, 3)


def test_a_prepared_transaction_is_found(engine: Any, other: Any, sweeper: Sweeper) -> None:
    late = other.enqueue("work")
    pass_by(engine, sweeper, 5)
    other.connection.execute("prepare transaction 'late'")
    pass_by(engine, sweeper, 40)
    engine.value("select 1")
    engine.connection.execute("commit prepared 'late'")
    assert ids(engine.claim("work", 10)) == {late}


def test_a_claim_that_is_rolled_back_after_its_own_sweep_hides_nothing(
    engine: Any, other: Any, sweeper: Sweeper
) -> None:
    sent = set(engine.enqueue_many("work", 6))
    engine.value("select setval('penstock.sweep_1', 0)")
    for _ in range(3):
        assert len(other.claim("work", 1)) == 1
        time.sleep(NAP_MS / 1000)
        other.value("select setval('penstock.sweep_1', 0)")
    sweeper.sweep(5)
    other.connection.rollback()
    assert ids(engine.claim("work", 10)) == sent


def test_a_delayed_message_that_is_due_before_its_commit_is_found(
    engine: Any, other: Any, work: str, wait_for: Any
) -> None:
    late = other.enqueue("work", delay="100 milliseconds")
    engine.create("clock")
    ahead = """select pg_sequence_last_value('penstock.due_floor') / 1e6
                      > extract(epoch from now()) - 1.2"""

    def floors_pass() -> bool:
        engine.value("select penstock.maintain()")
        return time.monotonic() > until and bool(engine.value(ahead))

    until = time.monotonic() + 1.5
    wait_for(floors_pass, "the floor of due messages is past it")
    engine.value(NO_TIMER_RESCAN)
    other.connection.commit()
    assert ids(engine.claim("work", 10)) == {late}


def test_a_claim_that_commits_after_its_lease_gives_its_message_back(
    engine: Any, other: Any, work: str, wait_for: Any
) -> None:
    sent = engine.enqueue("work")
    assert ids(other.claim("work", 1, 1)) == {sent}

    def floors_pass() -> bool:
        engine.value("select penstock.maintain()")
        return time.monotonic() > until

    until = time.monotonic() + 2.5
    wait_for(floors_pass, "the floor of expired leases is past it")
    engine.value(NO_TIMER_RESCAN)
    other.connection.commit()
    assert ids(engine.claim("work", 10)) == {sent}


class Play:
    """Blocks that come and go at random, during traffic and sweeps."""

    def __init__(
        self, seed: int, engine: Any, caller: Callable[..., Any], sweeper: Sweeper
    ) -> None:
        self.random = random.Random(seed)
        self.engine = engine
        self.sweeper = sweeper
        self.blocks = [caller(autocommit=False) for _ in range(4)]
        self.open: dict[int, list[int]] = {}
        self.taken: dict[int, set[int]] = {}

    def step(self) -> None:
        choose = self.random.randrange
        which = choose(len(self.blocks))
        block = self.blocks[which]
        act = choose(10)
        if act < 3:
            self.open.setdefault(which, []).append(self.put(block))
        elif act == 3:
            self.open.setdefault(which, []).extend(block.enqueue_many("work", choose(1, 20)))
        elif act == 4:
            block.connection.execute("savepoint s")
            self.put(block)
            block.connection.execute("rollback to savepoint s")
        elif act == 5:
            self.engine.rotate() if choose(10) == 0 else self.engine.enqueue("work")
        elif act == 6:
            block.connection.rollback()
            self.open.pop(which, None)
        elif act == 7:
            block.connection.commit()
            self.check(set(self.open.pop(which, [])))
        else:
            self.sweeper.sweep(choose(1, 4))

    def put(self, block: Any) -> int:
        return int(block.enqueue("work", priority=self.random.choice([0, 0, 0, 2, -1])))

    def check(self, committed: set[int]) -> None:
        """One claim brings everything that is committed."""
        leases = self.engine.claim("work", 1000)
        assert committed <= ids(leases), f"missing: {committed - ids(leases)}"
        left = self.engine.value("select count(*) from penstock.messages where state = 'ready'")
        assert left == 0
        self.engine.ack(leases)


@pytest.mark.parametrize("seed", range(6))
def test_a_claim_right_after_any_commit_finds_all_of_it(
    engine: Any, caller: Any, sweeper: Sweeper, seed: int
) -> None:
    play = Play(seed, engine, caller, sweeper)
    for _ in range(250):
        play.step()


def test_sessions_at_full_speed_hide_nothing(
    engine: Any, dsn: str, traffic: Any, work: str
) -> None:
    """The same with real concurrency: four producers in blocks, two consumers that sweep."""
    busy = traffic("work", backlog=0)
    stop = threading.Event()
    sent: list[int] = []
    failed: list[BaseException] = []

    def produce(seed: int) -> None:
        chance = random.Random(seed)
        try:
            with psycopg.connect(dsn) as connection:
                while not stop.is_set():
                    query = "select penstock.enqueue('work', '1')"
                    row = connection.execute(query).fetchone()
                    stop.wait(chance.choice([0, 0.001, 0.01, 0.03]))
                    connection.commit()
                    assert row is not None
                    sent.append(row[0])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=produce, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    busy.delay(set(sent), time.monotonic())
