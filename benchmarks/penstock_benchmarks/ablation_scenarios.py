"""What `bench ablation` measures. Each scenario leaves the queue `work` empty."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

PAYLOAD = json.dumps({"text": "x" * 180})
_CYCLES = 300
_POLLS = 200
_PINNED_MESSAGES = 20_000
_DISK_MESSAGES = 200_000
_BURST = 30_000
_FINISHED_MESSAGES = 20_000
_DAMAGED_SECONDS = 3.0


@dataclass(frozen=True)
class Scenario:
    measure: Callable[[Connection, str], float]
    unit: str
    digits: int = 0
    rounds: int | None = None


def cpu_us(connection: Connection) -> float:
    """The processor time of the session's process. The server must run on this machine."""
    text = Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text()
    return int(text.split()[0]) / 1000


def value(connection: Connection, query: str, *arguments: Any) -> Any:
    row = connection.execute(query, arguments, prepare=True).fetchone()
    return None if row is None else row[0]


def cycle(connection: Connection, count: int, payload: str = PAYLOAD) -> int:
    value(
        connection,
        "select count(*) from penstock.enqueue_many('work', array_fill(%s::jsonb, array[%s::int]))",
        payload,
        count,
    )
    return settle(connection, count)


def settle(connection: Connection, count: int) -> int:
    """Claims and acks up to so many messages; how many they were."""
    query = """with claimed as materialized (
            select array_agg(id) as ids, array_agg(token) as tokens from penstock.claim('work', %s))
        select count(*) from claimed c, penstock.ack_many(c.ids, c.tokens)
        where c.ids is not null"""
    return int(value(connection, query, count))


def _cpu_of_cycle(count: int) -> Callable[[Connection, str], float]:
    def measure(connection: Connection, dsn: str) -> float:
        connection.execute("set synchronous_commit = off")
        for _ in range(20):
            cycle(connection, count)
        cycles = max(20, _CYCLES // count)
        began = cpu_us(connection)
        for _ in range(cycles):
            cycle(connection, count)
        return (cpu_us(connection) - began) / cycles / count

    return measure


def _wal_of_cycle(count: int, payload: str = PAYLOAD) -> Callable[[Connection, str], float]:
    def measure(connection: Connection, dsn: str) -> float:
        lsn = "select pg_current_wal_insert_lsn() - '0/0'"
        cycles = 20 if len(payload) > 10_000 else max(20, 4 * _CYCLES // count)
        cycle(connection, count, payload)
        connection.execute("checkpoint")
        for _ in range(5):
            cycle(connection, count, payload)
        began = value(connection, lsn)
        for _ in range(cycles):
            cycle(connection, count, payload)
        return float(value(connection, lsn) - began) / cycles / count

    return measure


def _cpu_of_empty_poll(connection: Connection, dsn: str) -> float:
    query = "select id from penstock.claim('work')"
    # A lease that lasts: claims of an idle queue without leases have nothing to look for.
    value(connection, "select count(*) from penstock.enqueue_many('work', array['1'::jsonb])")
    held = connection.execute("select id, token from penstock.claim('work', 1, 600)").fetchone()
    for _ in range(50):
        value(connection, query)
    began = cpu_us(connection)
    for _ in range(_POLLS):
        value(connection, query)
    spent = cpu_us(connection) - began
    connection.execute("select penstock.ack(%s, %s)", held)
    return spent / _POLLS


def _xids_of_polls(connection: Connection, dsn: str) -> float:
    """Polls while another session sends a message now and then, so that floors move."""
    taken = 0
    for turn in range(_POLLS):
        if turn % 20 == 0:
            cycle(connection, 1)
        connection.execute("select setval('penstock.sweep_1', 0)")
        with connection.transaction():
            value(connection, "select id from penstock.claim('work')")
            taken += value(connection, "select pg_current_xact_id_if_assigned() is not null")
    return float(taken)


def _pinned_claim(connection: Connection, dsn: str) -> float:
    with _pinned(dsn):
        connection.execute("set synchronous_commit = off")
        for _ in range(_PINNED_MESSAGES // 10):
            cycle(connection, 10)
        began = cpu_us(connection)
        for _ in range(50):
            cycle(connection, 1)
        return (cpu_us(connection) - began) / 50


def _cpu_after_late_block(connection: Connection, dsn: str) -> float:
    """Of the commit of a block that 20,000 messages have passed, and of the next ten cycles."""
    connection.execute("set synchronous_commit = off")
    with _pinned(dsn), psycopg.connect(dsn) as block:
        block.execute("set synchronous_commit = off")
        for _ in range(2):  # the first time, the session has to compile the functions
            block.execute("select penstock.enqueue('work', '1')")
            for _ in range(_PINNED_MESSAGES // 10):
                cycle(connection, 10)
            began = cpu_us(connection) + cpu_us(block)
            block.commit()
            for _ in range(10):
                cycle(connection, 1)
            spent = cpu_us(connection) + cpu_us(block) - began
    settle(connection, 10)
    return spent / 1000


def _pinned_disk(connection: Connection, dsn: str) -> float:
    with _pinned(dsn):
        connection.execute("set synchronous_commit = off")
        for _ in range(_DISK_MESSAGES // 100):
            cycle(connection, 100)
        return _megabytes(connection)


def _megabytes(connection: Connection) -> float:
    """The size of all tables on disk."""
    return float(
        value(
            connection,
            "select sum(pg_total_relation_size(oid)) / 1048576 from pg_class"
            " where relnamespace = 'penstock'::regnamespace and relkind = 'r'",
        )
    )


def _disk_beside_leases(connection: Connection, dsn: str) -> float:
    """Every 20,000 messages, one is leased for an hour, so each segment has such a lease."""
    connection.execute("set synchronous_commit = off")
    held = []
    with _pinned(dsn):
        for turn in range(2 * _DISK_MESSAGES // 200):
            if turn % 100 == 0:
                value(connection, "select penstock.enqueue('work', '1')")
                claim = "select id, token from penstock.claim('work', 1, 3600)"
                held += connection.execute(claim).fetchall()
            cycle(connection, 200)
        used = _megabytes(connection)
    for lease in held:
        connection.execute("select penstock.ack(%s, %s)", lease)
    return used


def _disk_after_burst(connection: Connection, dsn: str) -> float:
    """A burst that does not fill its segment, and polls once it is drained."""
    connection.execute("set synchronous_commit = off")
    for _ in range(_BURST // 10_000):
        value(
            connection,
            "select count(*) from penstock.enqueue_many('work',"
            " array_fill(%s::jsonb, array[10000]))",
            PAYLOAD,
        )
    while settle(connection, 1000):
        pass
    for _ in range(6):
        time.sleep(0.5)
        settle(connection, 1)
    return _megabytes(connection)


def _cpu_of_stats(connection: Connection, dsn: str) -> float:
    with _pinned(dsn):
        connection.execute("set synchronous_commit = off")
        for _ in range(_PINNED_MESSAGES // 100):
            cycle(connection, 100)
        time.sleep(1.1)  # the first row is noted once a second
        settle(connection, 1)
        return _cpu_of_calls(connection, "select ready from penstock.stats('work')")


def _cpu_of_late_poll(connection: Connection, dsn: str) -> float:
    """Delayed messages leave dead entries in the index of the schedule."""
    with _pinned(dsn):
        connection.execute("set synchronous_commit = off")
        for _ in range(_PINNED_MESSAGES // 1000):
            value(
                connection,
                "select count(*) from penstock.enqueue_many('work', array_fill(%s::jsonb,"
                " array[1000]), delays => array_fill(interval '1 millisecond', array[1000]))",
                PAYLOAD,
            )
        until = time.monotonic() + 30
        drained = 0
        while drained < _PINNED_MESSAGES and time.monotonic() < until:
            drained += settle(connection, 1000)
        for _ in range(40):
            time.sleep(0.05)
            settle(connection, 1)
        return _cpu_of_calls(connection, "select id from penstock.claim('work')")


def _cpu_of_bounded_enqueue(connection: Connection, dsn: str) -> float:
    connection.execute("set synchronous_commit = off")
    create = "select penstock.create_queue('bounded', '{\"max_depth\": 1000000}', exist_ok => true)"
    value(connection, create)
    value(
        connection,
        "select count(*) from penstock.enqueue_many('bounded',"
        " array_fill('1'::jsonb, array[5000]))",
    )
    spent = _cpu_of_calls(connection, "select penstock.enqueue('bounded', '1')")
    value(connection, "select penstock.drop_queue('bounded', force => true)")
    return spent


def _cpu_of_calls(connection: Connection, query: str) -> float:
    for _ in range(20):
        value(connection, query)
    began = cpu_us(connection)
    for _ in range(_POLLS):
        value(connection, query)
    return (cpu_us(connection) - began) / _POLLS


@contextmanager
def _pinned(dsn: str) -> Iterator[None]:
    """While a report runs, PostgreSQL removes no dead rows."""
    with psycopg.connect(dsn) as pin:
        pin.execute("set transaction isolation level repeatable read")
        pin.execute("select count(*) from pg_class")
        yield


def _wal_of_removal(connection: Connection, dsn: str) -> float:
    with _removed_history(connection) as kilobytes:
        return kilobytes


def _disk_after_removal(connection: Connection, dsn: str) -> float:
    with _removed_history(connection):
        return _megabytes(connection)


@contextmanager
def _removed_history(connection: Connection) -> Iterator[float]:
    """Removes the history of a slot that is older than its queue keeps. Yields the WAL in kB."""
    older = "update penstock.history_slot set begun_at = begun_at - interval '3 days'"
    lsn = "select pg_current_wal_insert_lsn() - '0/0'"
    connection.execute("set synchronous_commit = off")
    connection.execute("select penstock.set_queue('work', '{\"keep_history\": 1}')")
    for _ in range(_FINISHED_MESSAGES // 1000):
        cycle(connection, 1000)
    for _ in range(2):  # the first turn begins the next slot, which is old after another three days
        connection.execute(older)
        connection.execute("checkpoint")
        began = value(connection, lsn)
        value(connection, "select penstock._turn_history()")
        spent = float(value(connection, lsn) - began) / 1024
    connection.execute("select penstock.set_queue('work', '{\"keep_history\": 0}')")
    yield spent


def _lost_below_floors(connection: Connection, dsn: str) -> float:
    """Floors that stand too high, as after a restore."""
    sent = 5
    value(
        connection,
        "select count(*) from penstock.enqueue_many('work', array_fill('1'::jsonb, array[5]))",
    )
    connection.execute("select setval(floors[1], 1000000000) from penstock.queue")
    until, found = time.monotonic() + _DAMAGED_SECONDS, 0
    while time.monotonic() < until and found < sent:
        found += settle(connection, 10)
        time.sleep(0.02)
    connection.execute("select setval(floors[1], 0) from penstock.queue")
    settle(connection, 10)
    return float(sent - found)


_LARGE = json.dumps({"text": base64.b64encode(os.urandom(48 * 1024)).decode()})

SCENARIOS = {
    "cpu of a cycle of 1": Scenario(_cpu_of_cycle(1), "us", 1),
    "cpu of the commit of a block after 20,000 messages and of 10 cycles, pinned": Scenario(
        _cpu_after_late_block, "ms", 1, rounds=2
    ),
    "cpu of a cycle of 4": Scenario(_cpu_of_cycle(4), "us", 1),
    "cpu of a cycle of 100": Scenario(_cpu_of_cycle(100), "us", 1),
    "wal of a cycle of 1": Scenario(_wal_of_cycle(1), "bytes", rounds=2),
    "wal of a cycle of 100": Scenario(_wal_of_cycle(100), "bytes", rounds=2),
    "wal of a cycle, 64 KiB payload": Scenario(_wal_of_cycle(1, _LARGE), "bytes", rounds=2),
    "cpu of an empty poll": Scenario(_cpu_of_empty_poll, "us", 1),
    "transaction ids of 200 polls": Scenario(_xids_of_polls, "", rounds=1),
    "cpu of a claim, horizon pinned": Scenario(_pinned_claim, "us", rounds=2),
    "disk after 200,000 messages, horizon pinned": Scenario(_pinned_disk, "MB", rounds=1),
    "disk after 400,000 messages next to long leases": Scenario(
        _disk_beside_leases, "MB", rounds=1
    ),
    "disk after a burst of 30,000 messages": Scenario(_disk_after_burst, "MB", 1, rounds=1),
    "cpu of stats after 20,000 messages, horizon pinned": Scenario(_cpu_of_stats, "us", rounds=2),
    "cpu of an empty poll after 20,000 delayed messages, horizon pinned": Scenario(
        _cpu_of_late_poll, "us", rounds=1
    ),
    "cpu of an enqueue under max_depth, 5,000 waiting": Scenario(
        _cpu_of_bounded_enqueue, "us", rounds=2
    ),
    "wal of removing the history of 20,000 messages": Scenario(_wal_of_removal, "kB", rounds=2),
    "disk after removing that history": Scenario(_disk_after_removal, "MB", 1, rounds=1),
    "messages not found within 3 s of damaged floors": Scenario(
        _lost_below_floors, "of 5", rounds=1
    ),
}
