"""Free-running sessions: several at once, unsynchronised, in random transactions.

What each session did is recorded here, outside the database, and checked in the end: nothing lost,
nothing acked twice, no ghosts, groups in order. A REPEATABLE READ reader pins the horizon all the
while, the ring turns every few hundred messages, and leases are short enough to expire.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.held import RUN_OUT

Connect = Callable[..., psycopg.Connection[Any]]
GROUPS = ["g1", "g2", "g3", None, None, None]
KEYS = ["k1", "k2", None, None, None, None, None, None]
# Messages of a group that were claimed before the previous one was finished: by the clock of the
# database, because two threads may record their acks in another order than they came.
EARLY = """
select group_key, id, last_claimed_at, before from (
  select *, lag(finished_at) over (partition by group_key order by last_claimed_at) as before
  from penstock.history where group_key is not null) h
where last_claimed_at < before
"""
# What one session may do to another, which is not an answer to our question.
RETRIED = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


@dataclass
class Record:
    """What happened, as those who did it know it: each message by the number in its payload."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: int = 0
    ids: dict[int, int] = field(default_factory=dict)  # number -> id, of what was committed
    undone: set[int] = field(default_factory=set)  # numbers of enqueues that were rolled back
    deliveries: Counter[int] = field(default_factory=Counter)
    acked: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def number(self) -> int:
        with self.lock:
            self.numbers += 1
            return self.numbers


@dataclass
class Worker:
    record: Record
    dsn: str
    seed: int
    until: float

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.connection = self._connect()

    def _connect(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(self.dsn, autocommit=True)
        connection.execute("set lock_timeout = '500ms'")
        connection.execute("set statement_timeout = '30s'")
        return connection

    def run(self) -> None:
        try:
            while time.monotonic() < self.until:
                try:
                    self.once()
                except RETRIED as error:
                    self.connection.rollback()
                    self.record.errors[type(error).__name__] += 1
        except Exception as error:
            self.record.faults.append(f"{type(self).__name__}: {type(error).__name__} {error}")
        finally:
            self.connection.close()

    def once(self) -> None:
        raise NotImplementedError


class Producer(Worker):
    def once(self) -> None:
        made: list[tuple[int, int]] = []
        undo = self.random.random() < 0.15
        numbers: list[int] = []
        try:
            with self.connection.transaction() as transaction:
                if self.random.random() < 0.1:
                    self.connection.execute("set transaction isolation level repeatable read")
                for _ in range(self.random.choice([1, 1, 1, 2, 5])):
                    made += self._enqueue(numbers)
                if self.random.random() < 0.1:
                    self.connection.execute("select pg_sleep(%s)", [self.random.random() / 5])
                if undo:
                    raise psycopg.Rollback(transaction)
        except RETRIED:
            self.record.undone.update(numbers)
            raise
        with self.record.lock:
            if undo:
                self.record.undone.update(numbers)
                return
            self.record.ids.update(made)

    def _enqueue(self, numbers: list[int]) -> list[tuple[int, int]]:
        if self.random.random() < 0.3:
            batch = [self.record.number() for _ in range(self.random.choice([2, 10, 60]))]
            numbers += batch
            rows = self.connection.execute(
                "select penstock.enqueue_many('q', %s)", [[Jsonb({"n": n}) for n in batch]]
            )
            return [(n, row[0]) for n, row in zip(batch, rows, strict=True)]
        number = self.record.number()
        numbers.append(number)
        group, key = self.random.choice(GROUPS), None
        if group is None:
            key = self.random.choice(KEYS)
        payload = {"n": number, "x": "x" * self.random.choice([0, 0, 0, 2000])}
        row = self.connection.execute(
            "select penstock.enqueue('q', %s, key => %s, group_key => %s, priority => %s,"
            " delay => make_interval(secs => %s))",
            [
                Jsonb(payload),
                key,
                group,
                self.random.choice([0, 0, 0, 3]) if group is None else 0,
                self.random.choice([None, None, None, 0.05]),
            ],
        ).fetchone()
        assert row is not None
        return [(number, row[0])]


class Consumer(Worker):
    def once(self) -> None:
        kind = self.random.random()
        if kind < 0.1:
            self._claim_and_undo()
            return
        leases = self._claim(2 if kind < 0.3 else 30)
        if not leases:
            self.connection.execute("select pg_sleep(0.002)")
        elif kind < 0.13:
            return  # forgotten: the lease expires
        elif kind < 0.25:
            for lease in leases:
                self._give_back(lease)
        elif kind < 0.4:
            self._ack_in_transaction(leases)
        elif kind < 0.6:
            for lease in leases:
                self._ack_one(lease)
        else:
            self._ack_many(leases)

    def _claim(self, lease_seconds: int) -> list[Any]:
        leases = self.connection.execute(
            "select id, token, payload from penstock.claim('q', %s, %s)",
            [self.random.choice([1, 1, 3, 10, 100]), lease_seconds],
        ).fetchall()
        with self.record.lock:
            for lease in leases:
                if lease[2] is None:
                    self.record.faults.append(f"delivered without its payload: {lease}")
                else:
                    self.record.deliveries[lease[2]["n"]] += 1
        return leases

    def _claim_and_undo(self) -> None:
        with self.connection.transaction() as transaction:
            self.connection.execute(
                "select * from penstock.claim('q', %s)", [self.random.choice([1, 10, 50])]
            )
            self.connection.execute("select pg_sleep(%s)", [self.random.random() / 20])
            raise psycopg.Rollback(transaction)

    def _acked(self, lease: Any) -> None:
        with self.record.lock:
            self.record.acked[lease[0]] += 1

    def _ack_one(self, lease: Any) -> None:
        try:
            self.connection.execute("select penstock.ack(%s, %s)", [lease[0], lease[1]])
        except psycopg.Error as error:
            if error.sqlstate != "PS007":
                raise
        else:
            self._acked(lease)

    def _ack_many(self, leases: list[Any]) -> None:
        rows = self.connection.execute(
            "select penstock.ack_many(%s, %s)", [[x[0] for x in leases], [x[1] for x in leases]]
        )
        settled = {row[0] for row in rows}
        for lease in leases:
            if lease[0] in settled:
                self._acked(lease)

    def _ack_in_transaction(self, leases: list[Any]) -> None:
        undo = self.random.random() < 0.3
        with self.connection.transaction() as transaction:
            rows = self.connection.execute(
                "select penstock.ack_many(%s, %s)", [[x[0] for x in leases], [x[1] for x in leases]]
            ).fetchall()
            settled = {row[0] for row in rows}
            if undo:
                raise psycopg.Rollback(transaction)
        for lease in leases:
            if lease[0] in settled and not undo:
                self._acked(lease)

    def _give_back(self, lease: Any) -> None:
        verb = self.random.choice(
            [
                "nack(%s, %s, 'no', '0')",
                "nack(%s, %s, 'no', '20 ms')",
                "snooze(%s, %s)",
                "snooze(%s, %s, '20 ms')",
            ]
        )
        try:
            self.connection.execute(f"select penstock.{verb}", [lease[0], lease[1]])  # type: ignore[arg-type]
        except psycopg.Error as error:
            if error.sqlstate != "PS007":
                raise


class Turner(Worker):
    """Makes the ring turn far more often than it would."""

    def once(self) -> None:
        self.connection.execute(
            "select setval('penstock.ring_until', 0), setval('penstock.ring_check_at', 0)"
        )
        for n in range(9):  # the second passes for which a drained segment is left alone
            self.connection.execute(
                f"select setval('penstock.drained_{n}', 1)"
                f" where pg_sequence_last_value('penstock.drained_{n}') > 0"
            )
        self.connection.execute("select pg_sleep(%s)", [self.random.random() / 10])


def hammer(dsn: str, connect: Connect, seconds: float, seed: int) -> Record:
    admin = connect(dsn)
    admin.execute("select penstock.create_queue('q', %s)", [Jsonb({"max_attempts": 100})])
    record = Record()
    until = time.monotonic() + seconds
    kinds = [Producer] * 4 + [Consumer] * 4 + [Turner]
    workers = [kind(record, dsn, seed * 100 + n, until) for n, kind in enumerate(kinds)]
    with connect(dsn) as pin:
        pin.execute("begin isolation level repeatable read")
        pin.execute("select count(*) from pg_class")  # a snapshot, and no lock on our tables
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pin.execute("rollback")
    drain(admin, record)
    return record


def drain(admin: psycopg.Connection[Any], record: Record) -> None:
    """Time passes: every delay ends and every lease expires. Then every message is delivered."""
    admin.execute("update penstock.scheduled set due_at = clock_timestamp()")
    admin.execute("update penstock.grouped set visible_at = least(visible_at, clock_timestamp())")
    admin.execute(RUN_OUT)
    empty = 0
    for _ in range(10_000):
        admin.execute("select penstock.maintain(true)")
        rows = admin.execute(
            "select c.id, penstock.ack(c.id, c.token), c.payload from penstock.claim('q', 500) c"
        ).fetchall()
        for message_id, _, payload in rows:
            record.deliveries[payload["n"]] += 1
            record.acked[message_id] += 1
        admin.execute(
            "update penstock.scheduled set due_at = clock_timestamp()"
            " where due_at < clock_timestamp() + interval '1 minute'"
        )
        empty = 0 if rows else empty + 1
        if empty == 5:
            return


def verify(record: Record, admin: psycopg.Connection[Any]) -> None:
    assert not record.faults, record.faults[:5]
    history = Counter(
        dict(admin.execute("select id, count(*) from penstock.history group by id").fetchall())
    )
    superseded = {
        row[0]
        for row in admin.execute("select id from penstock.history where state = 'superseded'")
    }
    committed = set(record.ids.values())
    left = admin.execute("select id, state, queue, group_key from penstock.messages").fetchall()
    assert not left, f"{len(left)} stuck: {left[:10]}"
    lost = committed - set(record.acked) - superseded
    assert not lost, f"{len(lost)} of {len(committed)} lost: {sorted(lost)[:10]}"
    twice = [message_id for message_id, times in record.acked.items() if times > 1]
    assert not twice, f"acked twice: {twice[:10]}"
    ghosts = set(record.acked) - committed
    assert not ghosts, f"acked but never committed: {sorted(ghosts)[:10]}"
    undone = record.undone & set(record.deliveries)
    assert not undone, f"rolled back, but delivered: {sorted(undone)[:10]}"
    assert all(history[message_id] == 1 for message_id in committed), "not in history once"
    assert not (early := admin.execute(EARLY).fetchall()), f"out of turn in a group: {early[:5]}"
    faults = admin.execute(
        "select * from penstock.message_group union all"
        " select queue_id, group_key from penstock.grouped"
    ).fetchall()
    assert not faults, f"groups left behind: {faults[:10]}"


@pytest.fixture
def run(
    dsn: str, connect: Connect, record_property: Callable[[str, object], None]
) -> Callable[[float, int], None]:
    def run(seconds: float, seed: int) -> None:
        record = hammer(dsn, connect, seconds, seed)
        figures = (
            f"{len(record.ids)} messages, {sum(record.deliveries.values())} deliveries,"
            f" {dict(record.errors)}, {seconds:.0f} s, seed {seed}"
        )
        record_property("figures", figures)
        print(figures)
        verify(record, connect(dsn))
        assert len(record.acked) > 100

    return run


def test_sessions_that_run_freely_lose_and_double_nothing(
    run: Callable[[float, int], None],
) -> None:
    run(6, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 10))
def test_sessions_that_run_freely_for_long(run: Callable[[float, int], None], seed: int) -> None:
    run(60, seed)
