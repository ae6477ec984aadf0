"""`bench depth`: what a claim costs when there is much that it must not take, or take yet."""

import time
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from penstock.bench import wire
from penstock.bench.comparison import quotient
from penstock.bench.driver import PAYLOAD_BYTES, Step, enqueue_step
from penstock.bench.options import Options
from penstock.bench.progress import Progress
from penstock.bench.report import Figures, Findings, Row, ratio_text
from penstock.bench.scratch import HISTORY_OFF, Scratch
from penstock.bench.session import Session, System

EMPTY = "bench-empty"
DEEP = "bench-deep"
QUEUES = {EMPTY: HISTORY_OFF, DEEP: HISTORY_OFF}
FULL_SECONDS = 60.0

# What "nearly empty" means: just enough that no claim is ever short.
_SPARE_BATCHES = 10
_LOAD_COUNT = 10_000
_FULL_LEASED = 10_000
_METHOD = (
    "The time of a claim of {batch} alone, seen by one client, synchronous commit off; acking it "
    "and enqueueing as many anew is not timed. Claims alternate between the deep queue and the "
    "nearly empty one, on both systems, until the time is up; a figure is the median claim in the "
    "deep queue / the median in the nearly empty one. Figures ending in _alone compare with the "
    "nearly empty queue before anything was loaded, those ending in _mean the means."
)


@dataclass(frozen=True)
class Load:
    """A state to measure in; `steps` are the loading statements, with their share of `messages`."""

    figure: str
    what: str
    steps: tuple[tuple[str, int], ...]


Times = dict[tuple[System, str], list[float]]


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
    for client in alone:
        place.purge(client.session.system, client.queue)
    progress.step()
    measured = {}
    for state in states:
        progress.say(f"loading: {state.what}")
        for system in System:
            _load(place, system, state)
        place.vacuum_plain()
        progress.say(state.what)
        measured[state.figure] = _measure(place, options, (DEEP, EMPTY), seconds)
        for system in System:
            for queue in QUEUES:
                place.purge(system, queue)
        progress.step()
    return _findings(options, alone, measured)


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
) -> list[Client]:
    clients = [
        Client(place.sessions[system], queue, options.batch)
        for system in System
        for queue in queues
    ]
    for client in clients:
        client.fill()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        # There and back again, so that nobody always comes after the same neighbour.
        for client in [*clients, *reversed(clients)]:
            client.claim()
    return clients


def _findings(options: Options, alone: list[Client], measured: dict[str, list[Client]]) -> Findings:
    before = {client.session.system: client.times for client in alone}
    figures: Figures = {}
    rows = [Row("nearly empty, alone", *[_milliseconds(before[system]) for system in System])]
    for state in loads(options):
        times = {(c.session.system, c.queue): c.times for c in measured[state.figure]}
        for system, prefix in ((System.PENSTOCK, ""), (System.PLAIN, "plain_")):
            deep, empty = times[system, DEEP], times[system, EMPTY]
            figures[f"{prefix}{state.figure}"] = quotient(deep, empty)
            figures[f"{prefix}{state.figure}_mean"] = mean(deep) / mean(empty)
            figures[f"{prefix}{state.figure}_alone"] = quotient(deep, before[system])
        rows += _rows(state, times, figures)
    return Findings(
        _METHOD.format(batch=options.batch),
        figures,
        rows,
        _notes(options, measured),
        {
            "claim_milliseconds": {
                "alone": [_sample(client) for client in alone],
                **{figure: [_sample(c) for c in clients] for figure, clients in measured.items()},
            }
        },
    )


def _rows(state: Load, times: Times, figures: Figures) -> list[Row]:
    rows = []
    for queue, what in ((DEEP, state.what), (EMPTY, "  nearly empty, beside it")):
        ours, plain = (times[system, queue] for system in System)
        texts = _milliseconds(ours), _milliseconds(plain), ratio_text(quotient(ours, plain))
        rows.append(Row(what, *texts))
    for suffix, what in (("", "  deep / nearly empty"), ("_alone", "  deep / nearly empty, alone")):
        name = f"{state.figure}{suffix}"
        rows.append(Row(what, ratio_text(figures[name]), ratio_text(figures[f"plain_{name}"])))
    return rows


def _notes(options: Options, measured: dict[str, list[Client]]) -> list[str]:
    notes = []
    if options.messages < 1_000_000:
        notes.append(f"ready_1m and scheduled_1m were measured with {options.messages:,} messages")
        notes.append("leased_10k was measured with a hundredth of that, at most 10,000")
    short = sum(client.short for clients in measured.values() for client in clients)
    if short:
        notes.append(f"{short} claims came back with less than {options.batch} messages")
    return notes


def _milliseconds(times: list[float]) -> str:
    return f"{median(times) * 1000:.3f} ms"


def _sample(client: Client) -> dict[str, Any]:
    ordered = sorted(client.times)

    def at(share: float) -> float:
        return round(ordered[int(share * (len(ordered) - 1))] * 1000, 4)

    return {
        "system": client.session.system,
        "queue": client.queue,
        "claims": len(ordered),
        "short_claims": client.short,
        "mean": round(mean(ordered) * 1000, 4),
        "p10": at(0.1),
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "max": at(1.0),
    }
