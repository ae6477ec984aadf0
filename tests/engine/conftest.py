"""What the engine's tests share: callers, traffic around the thing tested, pins of the horizon."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.db.embedded import EmbeddedPostgres, postmaster

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]

LIMIT = 60.0  # how long anything is waited for: a test that gets there has failed


def wait_for(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """Polls until the condition holds, and returns what it returned."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.002)
    return found


def value(connection: Connection, query: str, *arguments: Any) -> Any:
    row = connection.execute(query, arguments).fetchone()
    assert row is not None
    return row[0]


class Engine:
    """The SQL functions on one connection, as a caller from psql has them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def value(self, query: str, *arguments: Any) -> Any:
        return value(self.connection, query, *arguments)

    def create(self, queue: str, settings: str = '{"keep_history": 0}') -> None:
        self.value("select penstock.create_queue(%s, %s)", queue, settings)

    def enqueue(self, queue: str, payload: str = "1", **options: Any) -> int:
        named = "".join(f", {name} => %({name})s" for name in options)
        query = f"select penstock.enqueue(%(queue)s, %(payload)s{named})"
        row = self.connection.execute(
            query, {"queue": queue, "payload": payload, **options}
        ).fetchone()
        assert row is not None
        return int(row[0])

    def enqueue_many(self, queue: str, count: int) -> list[int]:
        query = """select penstock.enqueue_many(
            %s, array(select to_jsonb(i) from generate_series(1, %s) i))"""
        return [row[0] for row in self.connection.execute(query, [queue, count])]

    def claim(self, queue: str, count: int = 1, lease_seconds: int | None = None) -> list[Any]:
        """Pairs of id and token."""
        query = "select id, token from penstock.claim(%s, %s, %s)"
        return self.connection.execute(query, [queue, count, lease_seconds]).fetchall()

    def ack(self, leases: list[Any]) -> set[int]:
        if not leases:
            return set()
        ids, tokens = zip(*leases, strict=True)
        query = "select penstock.ack_many(%s::bigint[], %s::bigint[])"
        return {row[0] for row in self.connection.execute(query, [list(ids), list(tokens)])}

    def drain(self, queue: str, wanted: set[int], limit: float = LIMIT) -> list[int]:
        """Claims and acks until all wanted messages were delivered. Returns them in order."""
        came: list[int] = []

        def all_came() -> bool:
            leases = self.claim(queue, 1000)
            assert self.ack(leases) == {lease[0] for lease in leases}
            came.extend(lease[0] for lease in leases)
            return wanted <= set(came)

        wait_for(all_came, f"all of {len(wanted)} messages of {queue} delivered", limit)
        return came

    def floor(self, queue: str) -> int:
        query = "select pg_sequence_last_value(floors[1]) from penstock.queue where name = %s"
        return int(self.value(query, queue) or 0)

    def ring(self) -> tuple[str, str]:
        """The segments that are closing, and those in use, the last of them current."""
        closing, _, live = str(self.value("select last_value from penstock.ring")).partition("9")
        return closing, live

    def rotate(self) -> None:
        """Has the next enqueue take a new segment, and does that one."""
        current = self.ring()[1][-1]
        self.value("select penstock.create_queue('turning', '{\"keep_history\": 0}', true)")
        self.value("select setval('penstock.ring_until', 0)")
        turning = {self.enqueue("turning")}
        self.drain("turning", turning)
        assert self.ring()[1][-1] != current

    def tend(self) -> str:
        """Upkeep, twice, with the second that a segment stays drained passed over in between.

        Says which segments are not free.
        """
        self.value("select penstock.maintain()")
        self.pass_a_second()
        self.value("select penstock.maintain()")
        return "".join(self.ring())

    def pass_a_second(self) -> None:
        """For the segments that are drained, a second has passed since."""
        terms = (
            f"setval('penstock.drained_{slot}',"
            f" least(1, pg_sequence_last_value('penstock.drained_{slot}')))"
            for slot in range(9)
        )
        self.value(f"select {' + '.join(terms)}")

    def bytes(self) -> int:
        query = """select sum(pg_total_relation_size(c.oid)) from pg_class c
                   where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'r'"""
        return int(self.value(query))


class Traffic:
    """A queue that others are busy with: each thread claims, acks, and puts as many in again.

    With a backlog no claim ever comes back short; without, about every second one does.
    """

    def __init__(self, dsn: str, queue: str, backlog: int, threads: int = 2, batch: int = 10):
        self.dsn, self.queue, self.backlog, self.batch = dsn, queue, backlog, batch
        self.delivered: dict[int, tuple[float, int]] = {}  # id: when, and which delivery it was
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._guarded) for _ in range(threads)]

    def __enter__(self) -> Traffic:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            Engine(connection).enqueue_many(self.queue, max(1, self.backlog))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _guarded(self) -> None:
        try:
            options = "-c lock_timeout=20s"  # nothing that others do may keep it waiting for long
            with psycopg.connect(self.dsn, autocommit=True, options=options) as connection:
                self._run(Engine(connection))
        except BaseException as error:
            self.error = error

    def _run(self, engine: Engine) -> None:
        ask = self.batch if self.backlog else self.batch * 5
        while not self._stop.is_set():
            leases = engine.claim(self.queue, ask)
            now = time.monotonic()
            for message, _ in leases:
                self.delivered[message] = (now, self.delivered.get(message, (0, 0))[1] + 1)
            engine.ack(leases)
            engine.enqueue_many(self.queue, self.batch)

    def passed(self, count: int) -> None:
        """Waits until so many more messages went through."""
        goal = len(self.delivered) + count
        limit = LIMIT + count / 1000
        wait_for(lambda: self.error or len(self.delivered) >= goal, f"{count} more messages", limit)

    def delay(self, messages: set[int], since: float, deliveries: int = 1) -> float:
        """Waits until all of these came (so many times), and says how long after `since`."""

        def came() -> bool:
            found = [self.delivered.get(message, (0.0, 0)) for message in messages]
            return self.error is not None or all(times >= deliveries for _, times in found)

        wait_for(came, f"messages {messages} delivered")
        return max(self.delivered[message][0] for message in messages) - since


PINS = {
    "nobody": None,
    "reader": "select count(*) from pg_class",
    "writer": "select pg_current_xact_id()",
}


@pytest.fixture(params=PINS)
def pinned(request: pytest.FixtureRequest, connect: Connect) -> str:
    """What holds the horizon back: nothing, a long reader, or a holder of an xid."""
    statement = PINS[request.param]
    if statement is not None:
        pin = connect(autocommit=False)
        if request.param == "reader":
            pin.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        pin.execute(statement)
    return str(request.param)


@pytest.fixture(name="wait_for")
def wait_for_fixture() -> Callable[..., Any]:
    """`wait_for(condition, what)`: polls until the condition holds."""
    return wait_for


@pytest.fixture
def engine(connect: Connect) -> Engine:
    return Engine(connect())


@pytest.fixture
def caller(connect: Connect) -> Callable[..., Engine]:
    """Makes more callers: of the test's database, or of another."""
    return lambda dsn=None, **options: Engine(connect(dsn, **options))


@pytest.fixture
def other(connect: Connect) -> Engine:
    """Another caller, in its own transactions."""
    return Engine(connect(autocommit=False))


@pytest.fixture
def traffic(dsn: str) -> Iterator[Callable[..., Traffic]]:
    """Starts traffic, and stops it in the end."""
    with ExitStack() as stack:

        def start(queue: str, backlog: int = 1000, **options: Any) -> Traffic:
            return stack.enter_context(Traffic(dsn, queue, backlog, **options))

        yield start


@contextmanager
def durable_home() -> Iterator[Path]:
    """A home for a server that is killed: with a short name that other users can pass through."""
    place = Path(tempfile.mkdtemp(prefix="pens-", dir="/tmp"))
    place.chmod(0o711)
    try:
        yield place / "home"
    finally:
        for data in place.glob("**/server/postgres"):
            postmaster.stop(data)
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def home() -> Iterator[Path]:
    with durable_home() as home:
        yield home


@pytest.fixture
def durable(home: Path, pg_bin: Path) -> Callable[[], EmbeddedPostgres]:
    """Starts the server of this test's home, as often as it was killed; fsync is on."""
    return lambda: EmbeddedPostgres.start(home, bin_dir=pg_bin)
