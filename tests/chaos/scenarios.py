"""The faults. Each is a context: it begins at its start and is over at its end."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import psycopg

from .arena import SETTINGS, Pair, Run, Scenario
from .history import count
from .server import held
from .versions import replace_functions, upgrade

Fault: TypeAlias = Callable[[Run], AbstractContextManager[None]]


def after(fault: Fault) -> Callable[[Run], Pair]:
    """Compares the pace before a fault with that after it, once the backlog is empty."""

    def play(run: Run) -> Pair:
        before = run.window()
        with fault(run):
            run.watch(run.times.fault)
        run.notes["recovery_seconds"] = run.recover()
        return Pair(before, run.window())

    return play


def during(fault: Fault) -> Callable[[Run], Pair]:
    """Compares the pace without something and with it: what a queue should not notice."""

    def play(run: Run) -> Pair:
        before = run.window()
        with fault(run):
            run.watch(run.times.warm)
            beside = run.window()
        run.notes["recovery_seconds"] = run.recover()
        return Pair(before, beside)

    return play


@contextmanager
def repeated(act: Callable[[], None], seconds: float) -> Iterator[None]:
    """Does something at once, and again and again, while the block runs."""
    over = threading.Event()

    def loop() -> None:
        while True:
            # The server may be away for a moment: that is the idea.
            with contextlib.suppress(psycopg.Error):
                act()
            if over.wait(seconds):
                return

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def worker_killed_once(run: Run) -> Iterator[None]:
    run.workers.kill_one()
    yield


def workers_killed(run: Run) -> AbstractContextManager[None]:
    return repeated(run.workers.kill_one, 2)


def workers_frozen(run: Run) -> AbstractContextManager[None]:
    """One after the other stands still for longer than its leases last, and continues."""
    return repeated(lambda: run.workers.freeze_one(SETTINGS["lease_seconds"] + 1), 0.5)


def restarted(mode: str) -> Fault:
    @contextmanager
    def fault(run: Run) -> Iterator[None]:
        run.server.restart(mode)
        yield

    return fault


def backends_terminated(run: Run) -> AbstractContextManager[None]:
    """Ten times a second, any one of the sessions of workers and producers."""

    def act() -> None:
        with run.server.connect() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = 'chaos' and application_name <> 'harness'"
                " order by random() limit 1"
            )

    return repeated(act, 0.1)


@contextmanager
def connections_held(run: Run) -> Iterator[None]:
    """300 idle connections, and those of the pooler cut off, so that all have to find new ones."""
    with held(300, run.server.connect) as count:
        run.notes["connections_held"] = count
        with backends_terminated(run):
            yield


@contextmanager
def idle_in_silence(run: Run) -> Iterator[None]:
    """The open connections stop answering; new ones work."""
    assert run.proxy is not None
    run.proxy.tell("silence")
    yield


@contextmanager
def deaf(run: Run) -> Iterator[None]:
    """No connection answers, old or new; then new ones work, and the old ones never do."""
    assert run.proxy is not None
    run.proxy.tell("deaf")
    yield
    run.proxy.tell("hear")


@contextmanager
def horizon_pinned_by_reader(run: Run) -> Iterator[None]:
    with run.server.connect(autocommit=False) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from penstock.queues")
        yield


@contextmanager
def horizon_pinned_by_xid(run: Run) -> Iterator[None]:
    with run.server.connect(autocommit=False) as connection:
        connection.execute("select pg_current_xact_id()")
        yield


@contextmanager
def readers(run: Run) -> Iterator[None]:
    """Four sessions that read all of the queue's tables from end to end, without a pause."""
    over = threading.Event()
    scans: list[int] = []

    def read() -> None:
        with run.server.connect() as connection:
            while not over.is_set():
                connection.execute(
                    "select count(*), max(length(payload::text)) from penstock.messages"
                )
                scans.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        run.notes["scans"] = len(scans)


@contextmanager
def burst(run: Run) -> Iterator[None]:
    """Twenty seconds' worth of messages, as fast as the producers can."""
    run.producers.offer(run.times.rate * 10)
    time.sleep(2)
    run.producers.offer(run.times.rate)
    run.notes["backlog"] = run.backlog()
    yield


@contextmanager
def busier(run: Run) -> Iterator[None]:
    """1.5 times the usual load."""
    run.producers.offer(run.times.rate * 1.5)
    yield
    run.producers.offer(run.times.rate)


def capacity(run: Run) -> float:
    """How many messages a second the workers do while there is always more, and more coming."""
    run.producers.offer(run.times.rate * 20)
    deadline = time.monotonic() + run.times.fault
    while run.backlog() < run.times.rate * 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    first = count(run.place, "<")
    window = run.watch(run.times.fault / 2)
    most = (count(run.place, "<") - first) / (window.ended - window.begun) * 1e9
    run.producers.offer(run.times.rate)
    return most


def overloaded(run: Run) -> Pair:
    """1.5 times the capacity of the workers, for a while; then the usual load."""
    before = run.window()
    most = capacity(run)
    run.recover()
    run.producers.offer(most * 1.5)
    run.watch(run.times.fault)
    run.notes |= {"capacity": round(most), "backlog": run.backlog()}
    run.producers.offer(run.times.rate)
    run.notes["recovery_seconds"] = run.recover()
    return Pair(before, run.window())


@contextmanager
def nothing(run: Run) -> Iterator[None]:
    yield


def schema_upgraded(run: Run) -> Pair:
    """`migrate up` upgrades the schema of the previous version, while that version runs.

    Then it replaces every function, repeatedly. It must cause no error: one that a worker logs or a
    producer gets counts as a fault.
    """
    before = run.window()
    with run.server.connect() as connection:
        run.notes["steps"] = upgrade(connection)
    print(f"schema_upgraded: migrate up applied: {', '.join(run.notes['steps']) or 'nothing'}")
    replacements = 0
    until = time.monotonic() + run.times.fault
    while replacements == 0 or time.monotonic() < until:
        with run.server.connect() as connection:
            replace_functions(connection)
        replacements += 1
    run.notes["replacements"] = replacements
    run.notes["recovery_seconds"] = run.recover()
    pair = Pair(before, run.window())
    complaints = _complaints(run)
    run.notes["errors"] = len(complaints)
    # The first line of each kind: the same text with other numbers.
    kinds = {re.sub(r"\d+", "", line): line for line in reversed(complaints)}
    for line in kinds.values():
        print(f"schema_upgraded: {line}", flush=True)
    return pair


def _complaints(run: Run) -> list[str]:
    """Errors that workers have logged, except those that their handlers raise."""
    return [
        line
        for line in run.workers.log.read_text("utf-8").splitlines()
        if re.search(r"\b(WARNING|ERROR|CRITICAL)\b", line) and "as it happens" not in line
    ]


SCENARIOS = [
    Scenario("worker_killed_once", after(worker_killed_once)),
    Scenario("workers_killed", after(workers_killed)),
    Scenario("workers_frozen", after(workers_frozen)),
    Scenario("server_restarted_fast", after(restarted("fast"))),
    Scenario("server_restarted_immediate", after(restarted("immediate"))),
    Scenario("backends_terminated", after(backends_terminated)),
    Scenario("connections_held", after(connections_held)),
    Scenario("horizon_pinned_by_reader", during(horizon_pinned_by_reader)),
    Scenario("horizon_pinned_by_xid", during(horizon_pinned_by_xid)),
    Scenario("tables_read", during(readers)),
    Scenario("load_times_1_5", during(busier)),
    Scenario("burst", after(burst)),
    Scenario("overloaded", overloaded),
    Scenario("lines_silent", after(idle_in_silence), through_proxy=True),
    Scenario("network_deaf", after(deaf), through_proxy=True),
    Scenario("clocks_wrong", during(nothing), clocks=("+1h", "-1h")),
    Scenario("schema_upgraded", schema_upgraded, previous=True),
]
