"""Processes that put a queue under load, with a thread for each connection.

A process for each of 64 connections would take the processor from what is measured. libpq waits
without Python's lock, so the threads of a process hardly wait for each other.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from threading import Barrier, BrokenBarrierError, Event, Thread
from typing import Any, TypeAlias

import psycopg

from penstock_benchmarks import wire
from penstock_benchmarks.crew import interrupts_held
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.session import Session
from penstock_benchmarks.statements import statement

POLL_SECONDS = 0.005

_CONNECT_SECONDS = 60.0
_GROUPS, _PRIORITIES, _LARGEST = 20, 3, 20


@dataclass(frozen=True)
class Hold:
    """Transactions that enqueue one message each, and stay open for a while before they commit."""

    system: StrEnum
    queue: str
    connections: int
    seconds: float
    pause_seconds: float = 0.05
    group: str | None = None


@dataclass(frozen=True)
class Send:
    """Messages in autocommit, `rate` a second over all connections."""

    system: StrEnum
    queue: str
    connections: int
    rate: float
    commit_seconds: float = 0.0


@dataclass(frozen=True)
class Poll:
    """Claims of up to `count`, each followed by an ack. A pause of 5 ms after an empty claim."""

    system: StrEnum
    queue: str
    connections: int
    count: int
    archive: bool = False


@dataclass(frozen=True)
class Mix:
    """Transactions of 1 to 20 messages with groups, priorities and keys, in random order."""

    queue: str
    connections: int


Load: TypeAlias = Hold | Send | Poll | Mix


@dataclass
class Log:
    """The id of each message that was committed or claimed, and when; the deadlocks seen."""

    events: list[tuple[int, float]] = field(default_factory=list)
    deadlocks: int = 0


class LoadProcess:
    """One such process, seen from outside."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.read()

    def start(self, load: Load) -> None:
        """Returns once all connections are open and in use."""
        self.tell(load)
        self.answer()

    def read(self) -> Log:
        """Everything since the last reading."""
        log = self._ask("read")
        assert isinstance(log, Log)
        return log

    def end(self) -> Log:
        """Stops the load; what it did since the last reading."""
        self._ask("end")
        return self.read()

    def tell(self, what: object) -> None:
        """Gives an order, whose answer has to be waited for."""
        try:
            self._pipe.send(what)
        except BrokenPipeError:
            raise BenchError("a load process ended unexpectedly") from None

    def _ask(self, what: object) -> Any:
        self.tell(what)
        return self.answer()

    def answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise BenchError("a load process ended unexpectedly") from None
        if isinstance(answer, Exception):
            raise BenchError(str(answer)) from answer
        return answer


@contextmanager
def load_process(dsn: str) -> Iterator[LoadProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=load_main, args=(theirs, dsn), daemon=True)
    with interrupts_held():
        process.start()
    theirs.close()
    try:
        yield LoadProcess(ours)
    finally:
        ours.close()
        process.join(timeout=5)
        if process.is_alive():
            process.terminate()
            process.join()


def load_main(pipe: Connection, dsn: str) -> None:
    with suppress(EOFError, BrokenPipeError):
        process = _Process(dsn)
        while True:
            order = pipe.recv()
            try:
                pipe.send(process.obey(order))
            except Exception as error:
                pipe.send(BenchError(f"{type(error).__name__}: {error}"))


class _Process:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._threads: list[Thread] = []
        self._events: deque[tuple[int, float]] = deque()
        self._deadlocks: deque[float] = deque()
        self._errors: deque[Exception] = deque()
        self._stop = Event()

    def obey(self, order: object) -> Log | None:
        if self._errors:
            raise self._errors.popleft()
        if order == "read":
            deadlocks = [self._deadlocks.popleft() for _ in range(len(self._deadlocks))]
            events = [self._events.popleft() for _ in range(len(self._events))]
            return Log(events, len(deadlocks))
        if order == "end":
            self._end()
        elif isinstance(order, Hold):
            self._start(order.connections, lambda n, ready: self._hold(order, n, ready))
        elif isinstance(order, Send):
            self._start(order.connections, lambda n, ready: self._send(order, n, ready))
        elif isinstance(order, Poll):
            self._start(order.connections, lambda _, ready: self._poll(order, ready))
        elif isinstance(order, Mix):
            self._start(order.connections, lambda n, ready: self._mix(order, n, ready))
        return None

    def _start(self, connections: int, work: Callable[[int, Barrier], None]) -> None:
        self._stop = Event()
        ready = Barrier(connections + 1)

        def thread(number: int) -> None:
            try:
                work(number, ready)
            except BrokenBarrierError:
                pass  # the thread that broke it has said why
            except Exception as error:
                self._errors.append(error)
                ready.abort()

        self._threads = [
            Thread(target=thread, args=(number,), daemon=True) for number in range(connections)
        ]
        for each in self._threads:
            each.start()
        try:
            ready.wait(_CONNECT_SECONDS)
        except BrokenBarrierError:
            self._end()
            raise BenchError("the load's connections could not be opened") from None

    def _end(self) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()
        self._threads = []
        if self._errors:
            raise self._errors.popleft()

    def _hold(self, order: Hold, number: int, ready: Barrier) -> None:
        name = "commit.enqueue_group" if order.group else f"{order.system}.enqueue"
        query = statement(name).encode()
        parameters = [order.queue, wire.json_payload(PAYLOAD_BYTES).decode()]
        parameters += [order.group] if order.group else []
        with _raw_connection(self._dsn) as connection:
            ready.wait()
            # One after the other, so that they do not all commit at once.
            self._stop.wait(number * order.seconds / order.connections)
            while not self._stop.is_set():
                row = connection.execute(query, parameters).fetchone()
                assert row is not None
                if self._stop.wait(order.seconds):
                    connection.rollback()
                    return
                connection.commit()
                self._events.append((row[0], time.monotonic()))
                self._stop.wait(order.pause_seconds)

    def _send(self, order: Send, number: int, ready: Barrier) -> None:
        queue, payload = order.queue.encode(), wire.jsonb(wire.json_payload(PAYLOAD_BYTES))
        every = order.connections / order.rate
        with Session(self._dsn, order.system, order.queue) as session:
            if order.commit_seconds:
                session.delay_commits(order.commit_seconds)
            ready.wait()
            due_at = time.monotonic() + every * (number + 1) / order.connections
            while not self._stop.wait(max(0.0, due_at - time.monotonic())):
                id = session.enqueue(queue, payload)
                ended_at = time.monotonic()
                self._events.append((id, ended_at))
                # A slow call is not followed by a burst that makes up for it.
                due_at = max(due_at + every, ended_at)

    def _poll(self, order: Poll, ready: Barrier) -> None:
        queue, count = order.queue.encode(), wire.int4(order.count)
        with Session(self._dsn, order.system, order.queue) as session:
            settle = session.ack
            if order.archive:
                session.prepare("archive")
                settle = session.archive
            settle(session.claim(queue, count))  # the first call makes the plans
            ready.wait()
            while not self._stop.is_set():
                claimed = session.claim(queue, count)
                at = time.monotonic()
                if claimed.ntuples == 0:
                    self._stop.wait(POLL_SECONDS)
                    continue
                ids = (claimed.get_value(row, 0) or b"" for row in range(claimed.ntuples))
                self._events.extend((int.from_bytes(id), at) for id in ids)
                settle(claimed)

    def _mix(self, order: Mix, number: int, ready: Barrier) -> None:
        random = Random(number)
        query = statement("commit.enqueue_mixed").encode()
        payload = wire.json_payload(PAYLOAD_BYTES).decode()
        with _raw_connection(self._dsn) as connection:
            ready.wait()
            key = 0
            while not self._stop.is_set():
                try:
                    for _ in range(random.randint(1, _LARGEST)):
                        # Not used by other sessions: waiting for an equal key is legitimate.
                        key += 1
                        has_key, has_group = random.choice([(0, 0), (0, 1), (1, 0)])
                        parameters = [
                            order.queue,
                            payload,
                            f"{number}-{key}" if has_key else None,
                            random.randrange(_PRIORITIES),
                            f"group-{random.randrange(_GROUPS)}" if has_group else None,
                        ]
                        connection.execute(query, parameters)
                    self._stop.wait(random.random() * 0.01)
                    connection.commit()
                    self._events.append((key, time.monotonic()))
                except psycopg.errors.DeadlockDetected:
                    connection.rollback()
                    self._deadlocks.append(time.monotonic())


def _raw_connection(dsn: str) -> psycopg.Connection[Any]:
    """A connection of psycopg, as an application has it, for statements with $1."""
    return psycopg.connect(dsn, cursor_factory=psycopg.RawCursor)
