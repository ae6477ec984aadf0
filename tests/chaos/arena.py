"""Where scenarios are played: a server, a pooler, a load, and what is seen of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from .checker import Checker
from .crew import GRACE_SECONDS, Producers, Proxy, Workers
from .history import count
from .server import Pooler, Server, wait_for
from .versions import ROOT, install, unpack

SETTINGS: dict[str, Any] = {
    "lease_seconds": 3,
    "max_attempts": 100,
    "keep_history": 1,
    "backoff": {"max_seconds": 2},
}


@dataclass(frozen=True)
class Times:
    """How long the parts of a scenario take, in seconds, and how much is offered, a second."""

    rate: float
    warm: float
    window: float
    fault: float
    # How long a backlog may take to go away after a fault, and at the end of a run.
    recover: float


class Window(NamedTuple):
    """A stretch of time, in which completions are counted afterwards."""

    begun: int
    ended: int

    def rate(self, acks: Sequence[int]) -> float:
        count = sum(self.begun <= at < self.ended for at in acks)
        return count / (self.ended - self.begun) * 1e9


class Pair(NamedTuple):
    """Two windows to compare: before a fault and after it, or without something and with it."""

    before: Window
    after: Window


@dataclass
class Run:
    """One scenario being played: what it may do things to, and what it notes."""

    server: Server
    times: Times
    queue: str
    place: Path
    workers: Workers
    producers: Producers
    proxy: Proxy | None
    notes: dict[str, Any] = field(default_factory=dict)

    def backlog(self) -> int:
        """Messages that are ready or leased."""
        try:
            with self.server.connect(connect_timeout=5) as connection:
                query = "select ready, leased from penstock.stats(%s)"
                ready, leased = connection.execute(query, [self.queue]).fetchall()[0]
                return int(ready + leased)
        except psycopg.Error:
            return sys.maxsize  # the server is unavailable, so it has not recovered

    def watch(self, seconds: float) -> Window:
        begun = time.monotonic_ns()
        time.sleep(seconds)
        return Window(begun, time.monotonic_ns())

    def window(self) -> Window:
        return self.watch(self.times.window)

    def recover(self) -> float | None:
        """Waits until only the usual is in work; how long that took, or None if it did not."""
        begun = time.monotonic()
        usual = max(50.0, self.times.rate / 4)
        try:
            wait_for(lambda: self.backlog() <= usual, "the backlog is empty", self.times.recover)
        except TimeoutError:
            return None
        return round(time.monotonic() - begun, 2)


@dataclass(frozen=True)
class Scenario:
    """Something that goes wrong, and when that is measured."""

    name: str
    play: Callable[[Run], Pair]
    # What the wall clocks of the workers say: one after the other.
    clocks: Sequence[str | None] = (None,)
    through_proxy: bool = False
    # The schema, the workers and the producers are those of the previous version.
    previous: bool = False


class Arena:
    """One server and one pooler for all scenarios; a queue, workers and producers for each.

    `direct` leaves the pooler out: then workers listen for wake-ups.
    """

    def __init__(
        self,
        times: Times,
        *,
        direct: bool = False,
        keep: Path | None = None,
        revision: str | None = None,
    ) -> None:
        self.times, self.direct, self.keep, self.revision = times, direct, keep, revision
        self.producers_made = 0
        self._stack = ExitStack()

    def __enter__(self) -> Arena:
        with ExitStack() as stack:
            self.home = Path(tempfile.mkdtemp(prefix="chaos-"))
            self.home.chmod(0o755)
            stack.callback(shutil.rmtree, self.home, ignore_errors=True)
            (self.home / "server").mkdir()
            self.server = Server(self.home / "server")
            stack.callback(self.server.stop)
            self.port = self.server.port
            if not self.direct:
                pooler = Pooler(self.server)
                stack.callback(pooler.stop)
                self.port = pooler.port
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, scenario: Scenario) -> dict[str, Any]:
        """Plays a scenario to its end, checks its history, and says what was seen."""
        place = self.home / scenario.name
        place.mkdir()
        root = ROOT
        if scenario.previous:
            root = unpack(self.revision, place / "previous")
            self.server.create_database()
            install(self.server.dsn(), root)
        with self.server.connect() as connection:
            arguments = [scenario.name, json.dumps(SETTINGS)]
            connection.execute("select penstock.create_queue(%s, %s)", arguments)
        try:
            with self._run(scenario, place, root) as run:
                pair = self._stages(scenario, run, place)
            answer = self._judge(place, scenario.name, pair) | run.notes
            if scenario.previous:  # whose producers must not have met an error either
                answer["errors"] += answer["unknown"]
            return answer
        finally:
            if self.keep is not None:
                shutil.copytree(place, self.keep / scenario.name, dirs_exist_ok=True)
            shutil.rmtree(place)

    def _stages(self, scenario: Scenario, run: Run, place: Path) -> Pair:
        wait_for(lambda: count(place, "<") > self.times.rate, "work has begun", 180)
        run.watch(self.times.warm)
        run.recover()
        pair = scenario.play(run)
        run.producers.stop()
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not self._left(run.queue), "all is done", 3 * self.times.recover)
        return pair

    @contextlib.contextmanager
    def _run(self, scenario: Scenario, place: Path, root: Path) -> Iterator[Run]:
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(self.port)) if scenario.through_proxy else None
            port = proxy.port if proxy else self.port
            workers = Workers(
                self._command(self.server.dsn(port)),
                {"CHAOS_QUEUE": scenario.name, "CHAOS_PLACE": str(place)},
                place,
                scenario.clocks,
                root,
            )
            stack.callback(workers.stop)
            producers = Producers(
                self.server.dsn(self.port),
                scenario.name,
                place,
                self.times.rate,
                self.producers_made,
                root,
            )
            self.producers_made += len(producers.processes)
            stack.callback(producers.stop)
            yield Run(self.server, self.times, scenario.name, place, workers, producers, proxy)

    def _command(self, dsn: str) -> list[str]:
        command = [sys.executable, "-m", "penstock.cli", "worker", "tests.chaos.consumer:app"]
        command += ["--dsn", dsn]
        command += ["--concurrency", "20", "--grace", f"{GRACE_SECONDS}s"]
        return command if self.direct else [*command, "--no-wake-ups"]

    def _left(self, queue: str) -> frozenset[int]:
        """The messages of a queue that the database still has, in any state."""
        with self.server.connect() as connection:
            query = "select id from penstock.messages where queue = any (%s)"
            rows = connection.execute(query, [[queue, f"{queue}.dlq"]]).fetchall()
            return frozenset(row[0] for row in rows)

    def _judge(self, place: Path, queue: str, pair: Pair) -> dict[str, Any]:
        checker = Checker(place)
        verdict = checker.verdict(self._left(queue))
        before, after = (window.rate(checker.acks) for window in pair)
        return {
            **verdict.counts(),
            "errors": 0,
            "recovery_ratio": round(after / before, 4) if before else None,
            "rate_before": round(before, 1),
            "rate_after": round(after, 1),
            # A neighbour that takes the machine away shows here, and in the pace.
            "load_average": round(os.getloadavg()[0], 1),
            "examples": verdict.examples(),
        }
