"""`bench worker`: completions a second, pickup latency, idle queries, the cost of wake-ups."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from psycopg.conninfo import make_conninfo

from penstock_benchmarks import wire
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.crew import Crew, Window, crew
from penstock_benchmarks.driver import PAYLOAD_BYTES, Kind, Work, enqueue_step
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, rate_text, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.session import System
from penstock_benchmarks.worker_process import Attend, Serve, Subject, subject

QUEUE = "bench-worker"
CYCLE = "bench-worker-cycle"
AWAKE = "bench-worker-awake"
QUIET = "bench-worker-quiet"
IDLE = tuple(f"bench-worker-idle-{number}" for number in range(20))
QUEUES = dict.fromkeys([QUEUE, CYCLE, AWAKE, QUIET, *IDLE], HISTORY_OFF)
FULL_SECONDS = 180.0
CONCURRENCIES = (4, 16, 64, 256)
HANDLERS = {"no-op": 0.0, "1 ms": 0.001}
COMPARED = 64
HEADINGS = ("worker", "bare cycle", "worker / cycle")

# The shares of the time: the ratio, the other rates, pickup, idle, wake-ups.
_RATIO, _RATES, _PICKUP, _IDLE, _WAKE_UPS = 0.3, 0.15, 0.15, 0.15, 0.25
_WINDOW_SECONDS = 2.0
_RAMP_SECONDS = 0.3
# A worker that was just started looks at each of its queues.
_SETTLE_SECONDS = 2.0
_LOAD = 1000
_PICKUP_EVERY = 0.02
_METHOD = (
    "Completions: messages settled a second by one worker process on a backlog of 200-byte "
    "messages, history off; each handler reads its payload. Compared in windows A B B A: the "
    "cycle of the database at batch 64 with as many clients as given; synchronous commit is off on "
    "both sides. Pickup: one message at a time, from the answer to the enqueue to the start of the "
    "handler. Idle: the statements of a worker with 20 empty queues. Wake-ups: enqueue 1 by all "
    "clients, on a queue that another process listens and attends to, over one that no process "
    "did, in windows A B B A; the figure is the lower of synchronous commit off and on."
)


@dataclass
class Measured:
    """What was found so far."""

    rates: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    cycles: list[float] = field(default_factory=list)
    pickup: list[float] = field(default_factory=list)
    idle: float | None = None
    wake_ups: dict[bool, list[tuple[float, float]]] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    total = options.seconds or FULL_SECONDS
    found = Measured()
    dsn = make_conninfo(place.dsn, options="-c synchronous_commit=off")
    with subject(dsn) as process, crew(place.dsn, options.clients) as clients:
        bench = _Bench(place, process, clients, progress, found)
        bench.plan(total)
        bench.compare(total * _RATIO)
        bench.rates(total * _RATES)
        bench.pickup(total * _PICKUP)
        bench.idle(total * _IDLE)
        bench.wake_ups(total * _WAKE_UPS)
    return _findings(found)


def _rounds(seconds: float) -> tuple[int, float]:
    """An even number of rounds of two windows, and how long each window is."""
    rounds = max(2, round(seconds / (2 * _WINDOW_SECONDS) / 2) * 2)
    return rounds, seconds / (2 * rounds)


@dataclass
class _Bench:
    place: Scratch
    process: Subject
    clients: Crew
    progress: Progress
    found: Measured

    def plan(self, total: float) -> None:
        rates = len(HANDLERS) * len(CONCURRENCIES) - 1
        self.progress.plan(_rounds(total * _RATIO)[0] + rates + 2 + _rounds(total * 0.125)[0] * 2)

    def compare(self, seconds: float) -> None:
        """No-op handlers at 64, compared with the bare cycle at batch 64."""
        rounds, window = _rounds(seconds)
        for number in range(rounds):
            self.progress.say(f"no-op, {COMPARED} at once")
            for what in ("worker", "cycle") if number % 2 == 0 else ("cycle", "worker"):
                if what == "worker":
                    self._completions("no-op", COMPARED, window)
                else:
                    self._cycle(window)
            self.progress.step()

    def rates(self, seconds: float) -> None:
        cases = [
            (name, n) for name in HANDLERS for n in CONCURRENCIES if (name, n) != ("no-op", 64)
        ]
        for name, concurrency in cases:
            self.progress.say(f"{name}, {concurrency} at once")
            self._completions(name, concurrency, seconds / len(cases))
            self.progress.step()

    def _completions(self, handler: str, concurrency: int, seconds: float) -> None:
        known = self.found.rates.setdefault((handler, concurrency), [])
        messages = int((median(known) if known else 20_000) * (seconds + 2 * _RAMP_SECONDS) * 2)
        self._load(messages)
        with self.process.doing(Serve((QUEUE,), concurrency, HANDLERS[handler])):
            self._ramp()
            before = self.process.read()
            time.sleep(seconds)
            after = self.process.read()
        rate = (after.settled - before.settled) / (after.at - before.at)
        known.append(rate)
        if after.settled >= messages:
            self.found.notes.append(
                f"{handler}, {concurrency} at once: the backlog was empty before the end"
            )
        self.found.samples.append(
            {"handler": handler, "concurrency": concurrency, "seconds": seconds, "rate": rate}
        )
        self.place.purge(System.PENSTOCK, QUEUE)

    def _ramp(self) -> None:
        """Waits until the worker is running, and a little longer."""
        gives_up_at = time.monotonic() + 30
        while self.process.read().settled == 0:
            if time.monotonic() > gives_up_at:
                raise BenchError("the worker has settled nothing in 30 seconds")
            time.sleep(0.01)
        time.sleep(_RAMP_SECONDS)

    def _load(self, messages: int) -> None:
        session = self.place.sessions[System.PENSTOCK]
        payloads = [wire.json_payload(PAYLOAD_BYTES, number) for number in range(_LOAD)]
        enqueue = enqueue_step(session, QUEUE, payloads)
        for _ in range(-(-messages // _LOAD)):
            enqueue()

    def _cycle(self, seconds: float) -> None:
        window = self.clients.run(Work(System.PENSTOCK, CYCLE, Kind.CYCLE, COMPARED), seconds)
        self.found.cycles.append(window.rate)
        self.found.samples.append(window.as_json())
        self.place.drain(System.PENSTOCK, CYCLE)

    def pickup(self, seconds: float) -> None:
        """One message at a time, to a worker that has nothing else to do."""
        self.progress.say("pickup")
        session = self.place.sessions[System.PENSTOCK]
        enqueue = enqueue_step(session, QUEUE, [wire.json_payload(PAYLOAD_BYTES)])
        with self.process.doing(Serve((QUEUE,), 16, keep_starts=True)):
            enqueue()  # the first one pays for connections and plans
            self._ramp()
            self.process.read()
            answered: list[float] = []
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at or len(answered) < 10:
                enqueue()
                answered.append(time.monotonic())
                time.sleep(_PICKUP_EVERY)
            time.sleep(2 * _RAMP_SECONDS)
            starts = sorted(self.process.read().starts.values())
        if len(starts) != len(answered):
            self.found.notes.append(f"{len(answered)} messages were enqueued, {len(starts)} begun")
        # One at a time, and so in order.
        self.found.pickup = [
            max(0.0, start - at) * 1000 for start, at in zip(starts, answered, strict=False)
        ]
        self.progress.step()

    def idle(self, seconds: float) -> None:
        self.progress.say("idle")
        with self.process.doing(Serve(IDLE, 16)):
            time.sleep(_SETTLE_SECONDS)
            before = self.process.read()
            time.sleep(seconds)
            after = self.process.read()
        self.found.idle = (after.statements - before.statements) / (after.at - before.at)
        self.progress.step()

    def wake_ups(self, seconds: float) -> None:
        rounds, window = _rounds(seconds / 2)
        with self.process.doing(Attend(AWAKE)):
            for sync in (False, True):
                self.progress.say("wake-ups" + (", sync" if sync else ""))
                pairs = self.found.wake_ups.setdefault(sync, [])
                for number in range(rounds):
                    queues = (AWAKE, QUIET) if number % 2 == 0 else (QUIET, AWAKE)
                    rates = {queue: self._enqueue(queue, sync, window).rate for queue in queues}
                    pairs.append((rates[AWAKE], rates[QUIET]))
                    self.progress.step()

    def _enqueue(self, queue: str, sync: bool, seconds: float) -> Window:
        window = self.clients.run(Work(System.PENSTOCK, queue, Kind.ENQUEUE, 1, sync), seconds)
        self.found.samples.append(window.as_json())
        self.place.purge(System.PENSTOCK, queue)
        return window


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that this share of the others does not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _findings(found: Measured) -> Findings:
    worker = found.rates[("no-op", COMPARED)]
    ratio = Comparison(tuple(worker), tuple(found.cycles)).ratio
    p50, p99 = percentile(found.pickup, 0.5), percentile(found.pickup, 0.99)
    wake_ups = {
        sync: Comparison(*map(tuple, zip(*pairs, strict=True))).ratio
        for sync, pairs in found.wake_ups.items()
    }
    figures: Figures = {
        "completions_over_cycle_64": ratio,
        "pickup_p50_ms": p50,
        "pickup_p99_ms": p99,
        "idle_queries_per_second": found.idle,
        "enqueue_wakeups_on_over_off": min(each for each in wake_ups.values() if each is not None),
    }
    rows = [_rate_row(found, ratio, *case) for case in sorted(found.rates, reverse=True)]
    pickup = f"{ratio_text(p50)}, {ratio_text(p99)} ms"
    rows.append(Row(f"pickup, p50 and p99 of {len(found.pickup)}", pickup, ""))
    rows.append(Row("idle, 20 queues", f"{found.idle:.2f} queries/s", ""))
    for sync, pairs in found.wake_ups.items():
        on, off = (rate_text(median(rates)) for rates in zip(*pairs, strict=True))
        name = "enqueue 1, wake-ups on / off" + (", sync" if sync else "")
        rows.append(Row(name, f"{on} / {off}", "", ratio_text(wake_ups[sync])))
    samples = {"windows": found.samples, "pickup_ms": found.pickup}
    return Findings(_METHOD, figures, rows, found.notes, samples, HEADINGS)


def _rate_row(found: Measured, ratio: float | None, handler: str, concurrency: int) -> Row:
    rate = rate_text(median(found.rates[handler, concurrency]))
    name = f"{handler}, {concurrency} at once"
    if (handler, concurrency) != ("no-op", COMPARED):
        return Row(name, rate, "")
    return Row(name, rate, rate_text(median(found.cycles)), ratio_text(ratio))
