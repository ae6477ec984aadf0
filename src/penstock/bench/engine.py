"""`bench engine`: how many messages a second pass through, with nothing in the way."""

from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from penstock.bench.comparison import Comparison
from penstock.bench.crew import Crew, Window, crew
from penstock.bench.driver import Kind, Work
from penstock.bench.options import Options
from penstock.bench.progress import Progress
from penstock.bench.report import Figures, Findings, Row, rate_text, ratio_text
from penstock.bench.scratch import HISTORY_OFF, HISTORY_ON, Scratch
from penstock.bench.session import System

QUEUE = "bench-engine"
WITH_HISTORY = "bench-history"
QUEUES = {QUEUE: HISTORY_OFF, WITH_HISTORY: HISTORY_ON}
FULL_SECONDS = 720.0
BATCHES = (1, 10, 100)

_WINDOW_SECONDS = 1.0
# The part of the time in which both systems work before anything counts. In the full form that is
# 60 s for each system and cycle, the time between two autovacuums of a server left as it is: the
# plain table, slower with each row it leaves dead, is met at any point of its way. With synchronous
# commit on, where the disk decides, less will do.
_WARM_UP = 0.7
_WARM_UP_SHARE = {False: 1.0, True: 0.4}
_WARM_UP_STEP = 2.0
_METHOD = (
    "Cycle n: enqueue n, claim n, ack n, in three commits, with 200-byte payloads and history off. "
    "Rates are messages settled a second, medians of all windows. Both systems run in short "
    "windows, in the order A B B A; a ratio is the median of the ratios of neighbouring windows. "
    "sync: synchronous commit on. Before each cycle is measured both systems work for the same "
    "time (in the full form 60 s each; 24 s where it is measured with sync), and nobody vacuums by "
    "hand from then on: a queue runs all day; what counts is the pace it settles at, with "
    "autovacuum as the server has it. --vacuum-plain shows the plain table at its best instead."
)


@dataclass(frozen=True)
class Contest:
    """Two works to compare; `figure` is left / right."""

    figure: str
    what: str
    left: Work
    right: Work

    @property
    def warm_up_share(self) -> float:
        """Only a cycle against the plain table has something to settle at."""
        settles = self.left.kind is Kind.CYCLE and self.right.system is System.PLAIN
        return _WARM_UP_SHARE[self.left.synchronous_commit] if settles else 0.0


def contests() -> list[Contest]:
    found = [_contest(Kind.CYCLE, batch, sync) for sync in (False, True) for batch in BATCHES]
    on = Work(System.PENSTOCK, WITH_HISTORY, Kind.CYCLE, 10)
    off = Work(System.PENSTOCK, QUEUE, Kind.CYCLE, 10)
    found.append(Contest("history_on_over_off", "cycle 10, history on", on, off))
    return found + [_contest(Kind.ENQUEUE, batch, False) for batch in BATCHES]


def _contest(kind: Kind, batch: int, sync: bool) -> Contest:
    ours, plain = (Work(system, QUEUE, kind, batch, sync) for system in System)
    suffix, comment = ("_sync", ", sync") if sync else ("", "")
    return Contest(f"{kind}_{batch}{suffix}", f"{kind} {batch}{comment}", ours, plain)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    chosen = [c for c in contests() if not options.only or c.figure in options.only]
    total = options.seconds or FULL_SECONDS
    rounds, seconds = schedule(total * (1 - _WARM_UP), len(chosen))
    shares = [contest.warm_up_share for contest in chosen]
    progress.plan(rounds * len(chosen))
    with crew(place.dsn, options.clients) as clients:
        race = Race(place, clients, seconds, options.vacuum_plain, progress)
        for contest, share in zip(chosen, shares, strict=True):
            # One after the other, and each from a clean start: the plain table slows down with
            # every row it has left dead, and should answer here for its own alone.
            place.tidy(System.PLAIN)
            if share:
                race.warm_up(contest, total * _WARM_UP * share / sum(shares) / 2)
            for number in range(rounds):
                race.run(contest, number)
    findings = _findings(chosen, race)
    if options.vacuum_plain:
        findings.notes.append("the plain table was vacuumed before each of its windows")
    return findings


def schedule(seconds: float, contests: int) -> tuple[int, float]:
    """An even number of rounds over all contests, and how long each window is."""
    rounds = max(2, round(seconds / (contests * 2 * _WINDOW_SECONDS) / 2) * 2)
    return rounds, seconds / (contests * 2 * rounds)


@dataclass
class Race:
    """Runs contests, and keeps what came out."""

    place: Scratch
    clients: Crew
    seconds: float
    vacuum_plain: bool
    progress: Progress
    rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def warm_up(self, contest: Contest, seconds: float) -> None:
        self.progress.say(f"{contest.what}, warming up")
        for work in (contest.left, contest.right):
            self._work_off(replace(work, synchronous_commit=False), seconds)

    def _work_off(self, work: Work, seconds: float) -> None:
        while seconds > 0:
            self.clients.run(work, min(seconds, _WARM_UP_STEP))
            self.place.drain(work.system, work.queue)
            seconds -= _WARM_UP_STEP

    def run(self, contest: Contest, number: int) -> None:
        self.progress.say(contest.what)
        works = [contest.left, contest.right]
        windows = {
            work: self._measure(work) for work in (works if number % 2 == 0 else works[::-1])
        }
        pair = windows[contest.left].rate, windows[contest.right].rate
        self.rates.setdefault(contest.figure, []).append(pair)
        self.samples += [
            {"figure": contest.figure, "round": number, **windows[work].as_json()}
            for work in windows
        ]
        self.progress.step()

    def _measure(self, work: Work) -> Window:
        """A window; what it left behind is gone before the next one."""
        if self.vacuum_plain and work.system is System.PLAIN:
            self.place.tidy(System.PLAIN)
        window = self.clients.run(work, self.seconds)
        if work.kind is Kind.CYCLE:
            self.place.drain(work.system, work.queue)
        else:
            self.place.purge(work.system, work.queue)
        return window


def _findings(chosen: list[Contest], race: Race) -> Findings:
    figures: Figures = {}
    rows = []
    for contest in chosen:
        left, right = zip(*race.rates[contest.figure], strict=True)
        ratio = Comparison(left, right).ratio
        figures[contest.figure] = ratio
        ours, other = rate_text(median(left)), rate_text(median(right))
        if contest.right.system is System.PLAIN:
            rows.append(Row(contest.what, ours, other, ratio_text(ratio)))
        else:
            rows.append(Row(contest.what, ours, ""))
            rows.append(Row("  the same, history off", other, ""))
            rows.append(Row("  history on / off", ratio_text(ratio), ""))
    return Findings(_METHOD, figures, rows, samples={"windows": race.samples})
