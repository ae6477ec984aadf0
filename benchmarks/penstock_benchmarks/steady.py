"""`bench steady`: what is left of the pace when another transaction pins the horizon."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from penstock_benchmarks.comparison import ends, quotient
from penstock_benchmarks.crew import Crew, Window, crew
from penstock_benchmarks.driver import Kind, Work
from penstock_benchmarks.options import Options
from penstock_benchmarks.pin import Pin, pinned
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, bytes_text, rate_text, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.session import System

QUEUE = "bench-steady"
QUEUES = {QUEUE: HISTORY_OFF}

# An unpinned phase before, between and after, so that each pinned one has two neighbours.
PHASES = (None, Pin.READER, None, Pin.XID, None, Pin.READER, None, Pin.XID, None)
_WINDOW_SECONDS = 1.0
_CONTROL_SHARE = 0.3
_UNPINNED_PAIRS = 8
_PINNED_PAIRS = 12
# Where 500,000 messages are out of reach in any useful time, say so instead of continuing.
_MOST_PAIRS = 300
_METHOD = (
    "Cycles of {batch} with synchronous commit off and history off. Phases: unpinned, pinned by a "
    "REPEATABLE READ reader of another table, unpinned, pinned by the holder of an xid, and all "
    "again; in each phase windows of both systems in the order A B B A. Between them the clients "
    "run a query that has nothing to do with queues; its rate is the machine's pace, and ratios "
    "are of rates / pace, so that what others do to the machine falls out (_raw: without that). A "
    "pinned figure is the median window of the pinned phase / that of the two unpinned phases "
    "around it; last over first compares the last quarter of the pinned phase's windows with the "
    "first; both are means of the two rounds. After a pinned phase the plain table is vacuumed; "
    "Penstock is left alone."
)


@dataclass
class Phase:
    pin: Pin | None
    windows: dict[System, list[Window]] = field(
        default_factory=lambda: {system: [] for system in System}
    )
    disk: dict[System, list[int]] = field(default_factory=lambda: {system: [] for system in System})
    control: list[float] = field(default_factory=list)

    def rates(self, system: System) -> list[float]:
        return [window.rate for window in self.windows[system]]

    def paced(self, system: System) -> list[float]:
        """Rates in units of the machine's pace around each window."""
        # The control runs before the first pair and after each, so every pair lies between two.
        paces = [(before + after) / 2 for before, after in pairwise(self.control)]
        return [r / p for r, p in zip(self.rates(system), paces, strict=True) if p > 0]

    @property
    def messages(self) -> int:
        return sum(window.messages for window in self.windows[System.PENSTOCK])

    @property
    def pairs(self) -> int:
        return len(self.windows[System.PENSTOCK])

    def as_json(self) -> dict[str, Any]:
        return {
            "pin": self.pin,
            "messages": self.messages,
            "control_rates": [round(rate, 1) for rate in self.control],
            "windows": {s: [w.as_json() for w in found] for s, found in self.windows.items()},
            "disk_bytes": self.disk,
        }


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    plan = Plan.of(options)
    progress.plan(sum(plan.pairs(pin) for pin in PHASES))
    with crew(place.dsn, options.clients) as clients:
        phases = [_phase(place, clients, pin, options, plan, progress) for pin in PHASES]
    return _findings(phases, options)


@dataclass(frozen=True)
class Plan:
    """How many pairs of windows a phase has, and when it may end."""

    window_seconds: float
    unpinned_pairs: int
    pinned_pairs: int
    wanted: int

    @classmethod
    def of(cls, options: Options) -> "Plan":
        if options.seconds is None:
            return cls(_WINDOW_SECONDS, _UNPINNED_PAIRS, _PINNED_PAIRS, options.messages)
        # Pinned phases get twice the pairs of unpinned ones, as in the full form or nearly so.
        shares = sum(2 if pin else 1 for pin in PHASES)
        share = options.seconds / shares
        pairs = max(2, round(share / (2 * _WINDOW_SECONDS)))
        return cls(share / (2 * pairs), pairs, 2 * pairs, 0)

    def pairs(self, pin: Pin | None) -> int:
        return self.pinned_pairs if pin else self.unpinned_pairs

    def is_done(self, phase: Phase) -> bool:
        enough = phase.pin is None or phase.messages >= self.wanted or phase.pairs >= _MOST_PAIRS
        return phase.pairs >= self.pairs(phase.pin) and enough


def _phase(
    place: Scratch, clients: Crew, pin: Pin | None, options: Options, plan: Plan, progress: Progress
) -> Phase:
    phase = Phase(pin)
    work = {system: Work(system, QUEUE, Kind.CYCLE, options.batch) for system in System}
    with pinned(place.dsn, pin) if pin else nullcontext():
        _look_around(place, clients, phase, plan)
        while not plan.is_done(phase):
            progress.say(f"pinned by {pin}: {phase.messages:,} messages" if pin else "unpinned")
            order = list(System) if phase.pairs % 2 == 0 else list(reversed(System))
            for system in order:
                phase.windows[system].append(clients.run(work[system], plan.window_seconds))
                place.drain(system, QUEUE)
            _look_around(place, clients, phase, plan)
            progress.step()
    if pin:
        place.tidy(System.PLAIN)
    return phase


def _look_around(place: Scratch, clients: Crew, phase: Phase, plan: Plan) -> None:
    """What the disk holds, and how fast the machine is just now."""
    control = Work(System.PENSTOCK, QUEUE, Kind.CONTROL, 1)
    phase.control.append(clients.run(control, plan.window_seconds * _CONTROL_SHARE).rate)
    for system in System:
        phase.disk[system].append(place.disk(system).total)


def _findings(phases: list[Phase], options: Options) -> Findings:
    figures: Figures = {}
    for pin in Pin:
        for system, prefix in ((System.PENSTOCK, ""), (System.PLAIN, "plain_")):
            paced, raw = _pinned_over_unpinned(phases, pin, system)
            figures[f"{prefix}pinned_{pin}"] = paced
            figures[f"{prefix}last_over_first_{pin}"] = _last_over_first(phases, pin, system)
            figures[f"{prefix}pinned_{pin}_raw"] = raw
        figures[f"disk_bytes_before_{pin}"] = _disk(phases, pin, System.PENSTOCK, 0)
        figures[f"disk_bytes_after_{pin}"] = _disk(phases, pin, System.PENSTOCK, -1)
    return Findings(
        _METHOD.format(batch=options.batch),
        figures,
        _rows(phases, figures),
        _notes(phases, options),
        {"phases": [phase.as_json() for phase in phases]},
    )


def _pinned_over_unpinned(
    phases: list[Phase], pin: Pin, system: System
) -> tuple[float | None, float | None]:
    """In units of the machine's pace, and raw."""
    paced, raw = [], []
    for before, phase, after in zip(phases, phases[1:], phases[2:], strict=False):
        if phase.pin is pin:
            paced.append(quotient(phase.paced(system), before.paced(system) + after.paced(system)))
            raw.append(quotient(phase.rates(system), before.rates(system) + after.rates(system)))
    return _mean(paced), _mean(raw)


def _last_over_first(phases: list[Phase], pin: Pin, system: System) -> float | None:
    return _mean(quotient(*ends(phase.paced(system))) for phase in phases if phase.pin is pin)


def _mean(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) / len(known) if known else None


def _rows(phases: list[Phase], figures: Figures) -> list[Row]:
    rows = [_rate_row("unpinned", _rates_of(phases, None))]
    for pin in Pin:
        rows.append(_rate_row(f"pinned by {pin}", _rates_of(phases, pin)))
        for name, what in (("pinned", "pinned / unpinned"), ("last_over_first", "last / first")):
            ours, plain = figures[f"{name}_{pin}"], figures[f"plain_{name}_{pin}"]
            rows.append(Row(f"  {what}", ratio_text(ours), ratio_text(plain)))
        for what, at in (("before", 0), ("after", -1)):
            texts = [bytes_text(_disk(phases, pin, system, at)) for system in System]
            rows.append(Row(f"  disk {what}", *texts))
    return rows


def _rates_of(phases: list[Phase], pin: Pin | None) -> Callable[[System], list[float]]:
    return lambda system: [r for phase in phases if phase.pin is pin for r in phase.rates(system)]


def _rate_row(what: str, rates: Callable[[System], list[float]]) -> Row:
    ours, plain = rates(System.PENSTOCK), rates(System.PLAIN)
    return Row(
        what, rate_text(median(ours)), rate_text(median(plain)), ratio_text(quotient(ours, plain))
    )


def _disk(phases: list[Phase], pin: Pin, system: System, at: int) -> int:
    """Heap and index of the whole schema, in the phase where it was largest."""
    return max(phase.disk[system][at] for phase in phases if phase.pin is pin)


def _notes(phases: list[Phase], options: Options) -> list[str]:
    least = min(phase.messages for phase in phases if phase.pin)
    if least >= options.messages:
        return [f"at least {least:,} messages passed through Penstock in each pinned phase"]
    return [
        f"only {least:,} messages passed through Penstock in a pinned phase, not "
        f"{options.messages:,}: leave --seconds out, or make it longer"
    ]
