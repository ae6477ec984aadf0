"""`bench depth`: what a claim costs when there is much that it must not take, or take yet."""

import time
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from penstock_benchmarks import wire
from penstock_benchmarks.comparison import quotient
from penstock_benchmarks.driver import PAYLOAD_BYTES, Step, enqueue_step
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.session import Session, System

EMPTY = "bench-empty"
DEEP = "bench-deep"
QUEUES = {EMPTY: HISTORY_OFF, DEEP: HISTORY_OFF}
FULL_SECONDS = 60.0

# What "nearly empty" means: just enough that no claim is ever short.
_SPARE_BATCHES = 10
_LOAD_COUNT = 10_000
_FULL_LEASED = 10_000
_RATIOS = {
    "_beside": "  deep / empty next to it",
    "_alone": "  deep / empty before, corrected",
    "_neighbour": "  empty next to it / before, corrected",
}
_METHOD = (
    "The time of a claim of {batch} alone, seen by one client, synchronous commit off; acking it "
    "and enqueueing as many again is not timed. Claims alternate between the deep queue and a "
    "nearly empty one next to it, on both systems, until the time is up. Medians. _beside: deep / "
    "nearly empty next to it. _alone: deep / nearly empty before anything was loaded, corrected by "
    "how fast the machine was then and now (an unrelated query among the claims). The figure is "
    "the larger of the two. _neighbour: the empty one / before. _mean: _beside with means."
)


@dataclass(frozen=True)
class Load:
    """A state to measure in; `steps` are the loading statements, with their share of `messages`."""

    figure: str
    what: str
    steps: tuple[tuple[str, int], ...]


@dataclass
class Measurement:
    """Claims of all clients, and the control query among them."""

    clients: list["Client"]
    control: list[float]

    def times(self, system: System, queue: str) -> list[float]:
        return next(c.times for c in self.clients if (c.session.system, c.queue) == (system, queue))

    def paced(self, system: System, queue: str) -> float:
        """The median claim, in units of the control query."""
        return median(self.times(system, queue)) / median(self.control)


@dataclass
class Client:
    """Claims from one queue of one system, and puts back as much."""

    session: Session
    queue: str
    batch: int
    times: list[float] = field(default_factory=list)
    short: int = 0

    def __post_init__(self) -> None:
        self._enqueue: Step = enqueue_step(
            self.session,
            self.queue,
            [wire.json_payload(PAYLOAD_BYTES, n) for n in range(self.batch)],
        )
        self._name, self._count = self.queue.encode(), wire.int4(self.batch)

    def fill(self) -> None:
        for _ in range(_SPARE_BATCHES):
            self._enqueue()

    def claim(self) -> None:
        begun = time.perf_counter()
        claimed = self.session.claim(self._name, self._count)
        self.times.append(time.perf_counter() - begun)
        self.short += claimed.ntuples < self.batch
        self.session.ack(claimed)
        self._enqueue()


def loads(options: Options) -> list[Load]:
    many = options.messages
    leased = max(1, min(_FULL_LEASED, many // 100))
    return [
        Load("ready_1m", f"{many:,} ready", (("load_ready", many),)),
        Load("scheduled_1m", f"{many:,} scheduled", (("load_scheduled", many),)),
        Load("leased_10k", f"{leased:,} leased", (("load_ready", leased), ("load_leased", leased))),
    ]


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    states = loads(options)
    seconds = (options.seconds or FULL_SECONDS) / (len(states) + 1)
    progress.plan(len(states) + 1)
    progress.say("nearly empty")
    alone = _measure(place, options, (EMPTY,), seconds)
    _clear(place)
    progress.step()
    measured = {}
    for state in states:
        progress.say(f"loading: {state.what}")
        for system in System:
            _load(place, system, state)
            place.tidy(system)
        place.checkpoint()
        progress.say(state.what)
        measured[state.figure] = _measure(place, options, (DEEP, EMPTY), seconds)
        _clear(place)
        progress.step()
    return _findings(options, alone, measured)


def _clear(place: Scratch) -> None:
    for system in System:
        for queue in QUEUES:
            place.purge(system, queue)


def _load(place: Scratch, system: System, state: Load) -> None:
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    for step, total in state.steps:
        parameters: dict[str, Any] = {"queue": DEEP}
        if step != "load_leased":
            parameters["payload"] = payload
        for done in range(0, total, _LOAD_COUNT):
            place.run(f"{system}.{step}", count=min(_LOAD_COUNT, total - done), **parameters)


def _measure(
    place: Scratch, options: Options, queues: tuple[str, ...], seconds: float
) -> Measurement:
    clients = [Client(place.sessions[s], queue, options.batch) for s in System for queue in queues]
    control: list[float] = []
    for client in clients:
        client.fill()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        # Forwards and backwards, so that no side always follows the same neighbour.
        for client in [*clients, *reversed(clients)]:
            client.claim()
        begun = time.perf_counter()
        clients[0].session.control()
        control.append(time.perf_counter() - begun)
    return Measurement(clients, control)


def _findings(options: Options, alone: Measurement, measured: dict[str, Measurement]) -> Findings:
    figures: Figures = {}
    texts = [_milliseconds(alone.times(system, EMPTY)) for system in System]
    rows = [Row("nearly empty, before", *texts)]
    for state in loads(options):
        found = measured[state.figure]
        figures |= _figures(state.figure, System.PENSTOCK, alone, found)
        figures |= _figures(f"plain_{state.figure}", System.PLAIN, alone, found)
        rows += _rows(state, found, figures)
    samples = {"nearly_empty": _sample(alone)}
    samples |= {figure: _sample(found) for figure, found in measured.items()}
    method, notes = _METHOD.format(batch=options.batch), _notes(options, measured)
    return Findings(method, figures, rows, notes, {"claim_milliseconds": samples})


def _figures(name: str, system: System, alone: Measurement, found: Measurement) -> Figures:
    deep, empty = found.times(system, DEEP), found.times(system, EMPTY)
    before = alone.paced(system, EMPTY)
    beside, corrected = median(deep) / median(empty), found.paced(system, DEEP) / before
    return {
        name: max(beside, corrected),
        f"{name}_beside": beside,
        f"{name}_alone": corrected,
        f"{name}_neighbour": found.paced(system, EMPTY) / before,
        f"{name}_mean": mean(deep) / mean(empty),
    }


def _rows(state: Load, found: Measurement, figures: Figures) -> list[Row]:
    rows = []
    for queue, what in ((DEEP, state.what), (EMPTY, "  nearly empty next to it")):
        ours, plain = (found.times(system, queue) for system in System)
        texts = _milliseconds(ours), _milliseconds(plain), ratio_text(quotient(ours, plain))
        rows.append(Row(what, *texts))
    for suffix, what in _RATIOS.items():
        name = f"{state.figure}{suffix}"
        rows.append(Row(what, ratio_text(figures[name]), ratio_text(figures[f"plain_{name}"])))
    return rows


def _notes(options: Options, measured: dict[str, Measurement]) -> list[str]:
    notes = []
    if options.messages < 1_000_000:
        notes.append(f"ready_1m and scheduled_1m were measured with {options.messages:,} messages")
        notes.append("leased_10k was measured with a hundredth of that, at most 10,000")
    short = sum(client.short for found in measured.values() for client in found.clients)
    if short:
        notes.append(f"{short} claims came back with less than {options.batch} messages")
    return notes


def _milliseconds(times: list[float]) -> str:
    return f"{median(times) * 1000:.3f} ms"


def _sample(found: Measurement) -> dict[str, Any]:
    clients = [
        {
            "system": client.session.system,
            "queue": client.queue,
            "short_claims": client.short,
            **_spread(client.times),
        }
        for client in found.clients
    ]
    return {"clients": clients, "control": _spread(found.control)}


def _spread(times: list[float]) -> dict[str, float]:
    ordered = [seconds * 1000 for seconds in sorted(times)]
    shares = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    points = {name: ordered[int(share * (len(ordered) - 1))] for name, share in shares.items()}
    points["mean"] = mean(ordered)
    return {"count": len(ordered), **{name: round(value, 4) for name, value in points.items()}}
