"""What `bench commit` has measured so far, and the processes that it shares."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from penstock_benchmarks.load_process import LoadProcess, Log, Poll, load_process
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Row
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.worker import percentile
from penstock_benchmarks.worker_process import Subject, subject

QUEUE = "bench-commit"
PGMQ_QUEUE = "bench-commit-pgmq"
LIMITED = "bench-commit-limited"
GROUPED = "bench-commit-grouped"
MIXED = "bench-commit-mixed"
COLD_CLAIM = "bench-commit-cold-claim"
COLD_EMPTY = "bench-commit-cold-empty"
QUEUES = {
    **dict.fromkeys((QUEUE, PGMQ_QUEUE, GROUPED, MIXED, COLD_CLAIM, COLD_EMPTY), HISTORY_OFF),
    LIMITED: {**HISTORY_OFF, "max_depth": 100_000},
}

_POLLERS = 4


@dataclass
class Found:
    """Figures, table rows, samples and notes, as they come."""

    figures: Figures = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sample(self, part: str, **values: Any) -> None:
        self.samples.setdefault(part, []).append(values)


class Consumers(Protocol):
    """Consumers that claim until ended. `read` returns the messages since the last call."""

    def start(self, load: Poll) -> None: ...
    def read(self) -> list[tuple[int, float]]: ...
    def end(self) -> list[tuple[int, float]]: ...


@dataclass
class Bench:
    """The database, the options and the processes of a run."""

    place: Scratch
    options: Options
    progress: Progress
    found: Found
    stack: ExitStack

    @cached_property
    def worker(self) -> Subject:
        return self.stack.enter_context(subject(self.place.dsn))

    @cached_property
    def holders(self) -> LoadProcess:
        return self._process()

    @cached_property
    def senders(self) -> LoadProcess:
        return self._process()

    @cached_property
    def pollers(self) -> "Pollers":
        return Pollers([self._process() for _ in range(_POLLERS)])

    @cached_property
    def long_pollers(self) -> "Consumers":
        # Only here: the rest does without the web framework.
        from penstock_benchmarks.commit_long_poll import LongPollers
        from penstock_benchmarks.http import api_key
        from penstock_benchmarks.http_servers import penstock_server

        key = self.stack.enter_context(api_key(self.place))
        return LongPollers(self.stack.enter_context(penstock_server(self.place.dsn)), key)

    def _process(self) -> LoadProcess:
        return self.stack.enter_context(load_process(self.place.dsn))


class Pollers:
    """Consumers in a polling loop, spread over several processes."""

    def __init__(self, processes: list[LoadProcess]) -> None:
        self._processes = processes
        self._busy: list[LoadProcess] = []

    def start(self, load: Poll) -> None:
        parts = len(self._processes)
        self._busy = []
        for number, process in enumerate(self._processes):
            share = load.connections * (number + 1) // parts - load.connections * number // parts
            if share:
                part = Poll(load.system, load.queue, share, load.count, load.archive)
                process.tell(part)
                self._busy.append(process)
        # All of them connect at the same time.
        for process in self._busy:
            process.answer()

    def read(self) -> list[tuple[int, float]]:
        return _events([process.read() for process in self._busy])

    def end(self) -> list[tuple[int, float]]:
        return _events([process.end() for process in self._busy])


def _events(logs: list[Log]) -> list[tuple[int, float]]:
    return [event for log in logs for event in log.events]


@dataclass
class Delays:
    """The time from the return of the commit until the delivery of a message, in ms."""

    values: list[float] = field(default_factory=list)
    missing: int = 0

    def add(self, committed: list[tuple[int, float]], received: dict[int, float]) -> "Delays":
        """Add a window. A message that was not delivered has waited at least until now."""
        now = time.monotonic()
        for id, at in committed:
            self.missing += id not in received
            # A claim may see a commit before its producer does.
            self.values.append(max(0.0, received.get(id, now) - at) * 1000)
        return self

    def at(self, share: float) -> float | None:
        return percentile(self.values, share)

    @property
    def text(self) -> str:
        parts = (self.at(0.5), self.at(0.99))
        return " / ".join("none" if each is None else f"{each:,.1f}" for each in parts) + " ms"

    def as_json(self) -> dict[str, Any]:
        shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
        found = {name: self.at(share) for name, share in shares.items()}
        return {"count": len(self.values), "missing": self.missing} | {
            f"{name}_ms": None if value is None else round(value, 3)
            for name, value in found.items()
        }
