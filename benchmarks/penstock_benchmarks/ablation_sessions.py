"""What `bench ablation` measures with several sessions.

Each scenario leaves the queue `work` empty.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psycopg

from penstock.commands.write.leases import claim
from penstock_benchmarks.ablation_scenarios import (
    PAYLOAD,
    Connection,
    Scenario,
    cpu_us,
    cycle,
    settle,
    value,
)

_BLOCKS = 40
_DUE = 100
_WAKE_UPS = 9
_POLL_SECONDS = 1.0
_NEW_SESSIONS = 30
_NEXT_TO_A_LONG_COMMIT = 20_000
_CLAIMS_OF_A_BLOCK = 300
_OPEN_SECONDS = 1.0
_TIMED_CLAIMS = 300
_COUNTED_CLAIMS = 200
# With this setting of the database, the claims of clients wait for the disk.
CLAIMS_WAIT = "penstock_ablation.claims_wait"
_CLAIM = "select id, token from penstock.claim('work', %s)"
_ACK = "select count(*) from penstock.ack_many(%s, %s)"


def _missed_blocks(connection: Connection, dsn: str) -> float:
    """A block enqueues, others pass by, the block commits: does the first claim find it?"""
    missed = 0
    with psycopg.connect(dsn) as block:
        for _ in range(_BLOCKS):
            block.execute("select penstock.enqueue('work', '1')")
            for _ in range(3):
                cycle(connection, 1)
                time.sleep(0.006)
            block.commit()
            missed += settle(connection, 10) == 0
    time.sleep(1.1)
    settle(connection, 10)
    return float(missed)


def _hidden_by_a_block(connection: Connection, dsn: str) -> float:
    """A block claims from another queue when messages are due. How many can others not claim?"""
    value(connection, "select penstock.create_queue('others', exist_ok => true)")
    with psycopg.connect(dsn) as block:
        for _ in range(20):  # the first claims of a session leave upkeep to others
            block.execute("select penstock.claim('others')")
            block.commit()
        value(
            connection,
            "select count(*) from penstock.enqueue_many('work', array_fill('1'::jsonb, array[%s]),"
            " delays => array_fill(interval '1 millisecond', array[%s]))",
            _DUE,
            _DUE,
        )
        time.sleep(0.1)
        block.execute("select setval('penstock.tick_at', 0)")
        block.commit()
        block.execute("select penstock.claim('others')")
        found = settle(connection, _DUE)
        block.rollback()
    for _ in range(20):
        time.sleep(0.05)
        settle(connection, _DUE)
    return float(_DUE - found)


def _delivery_to_a_waiting_consumer(connection: Connection, dsn: str) -> float:
    """It listens, and also polls once a second. The median in milliseconds."""
    channel = value(connection, "select penstock.wake_channel('work')")
    delays = []
    with psycopg.connect(dsn, autocommit=True) as consumer:
        consumer.execute(f'listen "{channel}"')
        for turn in range(_WAKE_UPS):
            value(consumer, "select penstock.attend('work')")
            settle(consumer, 1)
            sent: list[float] = []
            # At another moment of the second in each turn.
            wait = _POLL_SECONDS * (turn + 0.5) / _WAKE_UPS
            producer = threading.Timer(wait, _enqueue_one, (dsn, sent))
            producer.start()
            while settle(consumer, 1) == 0:
                list(consumer.notifies(timeout=_POLL_SECONDS, stop_after=1))
            delays.append(time.monotonic() - sent[0])
            producer.join()
    return median(delays) * 1000


def _time_of_a_claim(connection: Connection, dsn: str) -> float:
    """The statement of the clients on their own pool, in autocommit. The median in milliseconds."""
    command = claim("work")
    statement, wait = command.alone, f"select current_setting('{CLAIMS_WAIT}', true)"
    if value(connection, wait) == "on":
        statement = statement.replace("('synchronous_commit', 'off'", "('synchronous_commit', 'on'")
        assert statement != command.alone
    connection.execute("set synchronous_commit = on")
    spent = []
    for _ in range(_TIMED_CLAIMS):
        value(connection, "select penstock.enqueue('work', '1')")
        began = time.monotonic()
        lease = connection.execute(statement, command.params, prepare=True).fetchall()
        spent.append(time.monotonic() - began)
        value(connection, _ACK, [row[0] for row in lease], [row[1] for row in lease])
    return median(spent) * 1000


def _xids_of_claims(connection: Connection, dsn: str) -> float:
    """Claims of clients behind a pooler, next to messages that are leased in place."""
    query = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    command = claim("work")
    value(
        connection,
        "select count(*)"
        " from penstock.enqueue_many('work', array_fill('1'::jsonb, array[%s::int]))",
        _COUNTED_CLAIMS + 20,
    )
    leases = connection.execute(_CLAIM, (20,)).fetchall()
    began = value(connection, query)
    for _ in range(_COUNTED_CLAIMS):
        rows = connection.execute(command.alone, command.params, prepare=False).fetchall()
        leases += [(row[0], row[1]) for row in rows]
    taken = value(connection, query) - began
    value(connection, _ACK, [row[0] for row in leases], [row[1] for row in leases])
    return float(taken)


def _enqueue_one(dsn: str, sent: list[float]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        sent.append(time.monotonic())
        connection.execute("select penstock.enqueue('work', '1')")


def _longest_ack_next_to_a_block(connection: Connection, dsn: str) -> float:
    """Others lease in place and ack, while a block claims and stays open for a second."""
    value(
        connection,
        "select count(*) from penstock.enqueue_many('work', array_fill('1'::jsonb, array[2000]))",
    )
    acks: list[float] = []
    with psycopg.connect(dsn) as block, _traffic(dsn, acks) as passed:
        for _ in range(_CLAIMS_OF_A_BLOCK):
            block.execute(_CLAIM, (3,))
        passed(1000)
        time.sleep(_OPEN_SECONDS)
        block.rollback()
    while settle(connection, 1000):
        pass
    return max(acks) * 1000


@contextmanager
def _traffic(dsn: str, acks: list[float]) -> Iterator[Callable[[int], None]]:
    """Two sessions that enqueue, claim and ack 20 at a time. Yields a wait for so many acks."""
    stop = threading.Event()
    threads = [threading.Thread(target=_pass, args=(dsn, acks, stop)) for _ in range(2)]
    for thread in threads:
        thread.start()

    def passed(count: int) -> None:
        until = time.monotonic() + _OPEN_SECONDS
        goal = len(acks) + count
        while len(acks) < goal and time.monotonic() < until:
            time.sleep(0.01)

    try:
        yield passed
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _pass(dsn: str, acks: list[float], stop: threading.Event) -> None:
    enqueue = "select count(*) from penstock.enqueue_many('work', array_fill(%s::jsonb, array[20]))"
    with psycopg.connect(dsn, autocommit=True) as session:
        while not stop.is_set():
            value(session, enqueue, PAYLOAD)
            leases = session.execute(_CLAIM, (20,), prepare=True).fetchall()
            began = time.monotonic()
            value(session, _ACK, [row[0] for row in leases], [row[1] for row in leases])
            acks.append(time.monotonic() - began)


def _claim_next_to_a_long_commit(connection: Connection, dsn: str) -> float:
    """One statement in autocommit has enqueued, and ends much later."""
    slow = "select penstock.enqueue('work', '1'), pg_sleep(%s)"
    with psycopg.connect(dsn, autocommit=True) as session:
        for _ in range(5):
            session.execute(slow, (0,), prepare=True)
        settle(connection, 10)
        thread = threading.Thread(target=_until_canceled, args=(session, slow))
        thread.start()
        connection.execute("set synchronous_commit = off")
        time.sleep(0.2)
        for _ in range(_NEXT_TO_A_LONG_COMMIT // 10):
            cycle(connection, 10)
        began = cpu_us(connection)
        for _ in range(50):
            cycle(connection, 1)
        spent = (cpu_us(connection) - began) / 50
        session.cancel_safe()
        thread.join()
    return spent


def _until_canceled(session: Connection, query: str) -> None:
    try:
        session.execute(query, (600,), prepare=True)
    except psycopg.errors.QueryCanceled:
        return


def _first_claim(connection: Connection, dsn: str) -> float:
    """The processor time of the first claim of a session when upkeep is due. The lowest counts."""
    spent = []
    for _ in range(_NEW_SESSIONS):
        value(connection, "select penstock.enqueue('work', '1')")
        time.sleep(0.06)
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute("select 1")
            began = cpu_us(session)
            session.execute("select id from penstock.claim('work')")
            spent.append(cpu_us(session) - began)
        connection.execute("select penstock.purge('work')")
    return min(spent)


def _memory_of_a_session(connection: Connection, dsn: str) -> float:
    """What a session keeps after an enqueue, a claim and an ack, more than an idle one."""
    with (
        psycopg.connect(dsn, autocommit=True) as idle,
        psycopg.connect(dsn, autocommit=True) as session,
    ):
        for each in (idle, session):
            each.execute("select 1")
        cycle(session, 1)
        return _private_megabytes(session) - _private_megabytes(idle)


def _private_megabytes(session: Connection) -> float:
    lines = Path(f"/proc/{session.info.backend_pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


SCENARIOS = {
    "blocks missed by the first claim": Scenario(_missed_blocks, f"of {_BLOCKS}", rounds=1),
    "due messages that others cannot claim next to an open block": Scenario(
        _hidden_by_a_block, f"of {_DUE}", rounds=1
    ),
    "delivery to a waiting consumer, median": Scenario(
        _delivery_to_a_waiting_consumer, "ms", 1, rounds=1
    ),
    "transaction ids of 200 claims without prepared statements": Scenario(
        _xids_of_claims, "", rounds=3
    ),
    "time of a claim and its commit, median": Scenario(_time_of_a_claim, "ms", 2, rounds=3),
    "longest ack next to a block that is open for a second": Scenario(
        _longest_ack_next_to_a_block, "ms", rounds=2
    ),
    "cpu of a cycle of 1 after 20,000 messages, next to a long commit": Scenario(
        _claim_next_to_a_long_commit, "us", rounds=2
    ),
    "cpu of the first claim of a session": Scenario(_first_claim, "us", rounds=3),
    "memory of a session": Scenario(_memory_of_a_session, "MB", 2, rounds=3),
}
