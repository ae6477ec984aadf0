"""`bench engine`: how many messages a second pass through, with nothing in the way."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.crew import Crew, Window, crew
from penstock_benchmarks.driver import Kind, Work
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, rate_text, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, HISTORY_ON, Scratch
from penstock_benchmarks.session import System

QUEUE = "bench-engine"
WITH_HISTORY = "bench-history"
QUEUES = {QUEUE: HISTORY_OFF, WITH_HISTORY: HISTORY_ON}
FULL_SECONDS = 960.0
BATCHES = (1, 10, 100)

_WINDOW_SECONDS = 1.0
# How the time is shared out. A cycle is worked in turns, which in the full form take a minute each,
# the time between two autovacuums of a server left as it is: the plain table, slower with each row
# that it leaves dead, shows its whole way from one to the next. The rest has nothing to settle at.
_CYCLE_SHARE, _SYNC_SHARE, _OTHER_SHARE = 1.0, 0.25, 0.1
_TURNS = 2
_METHOD = (
    "Cycle n: enqueue n, claim n, ack n, in three commits, with 200-byte payloads and history off. "
    "Rates are messages settled a second. Both systems work in the order A B B A, a cycle in turns "
    "of a minute (in the full form; a quarter of that with sync), of which the last two thirds "
    "count, all else in windows of a second; a ratio is the median of the ratios of neighbours. "
    "sync: synchronous commit on. The plain table is vacuumed before each line, and not vacuumed "
    "by hand after that. A queue runs all day, so what counts is the pace it settles at, with "
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
    def settles(self) -> bool:
        return self.left.kind is Kind.CYCLE and self.right.system is System.PLAIN

    @property
    def share(self) -> float:
        if not self.settles:
            return _OTHER_SHARE
        return _SYNC_SHARE if self.left.synchronous_commit else _CYCLE_SHARE


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
    second = (options.seconds or FULL_SECONDS) / sum(contest.share for contest in chosen)
    schedules = [schedule(contest, contest.share * second) for contest in chosen]
    progress.plan(sum(2 * each.rounds * each.windows for each in schedules))
    with crew(place.dsn, options.clients) as clients:
        race = Race(place, clients, options.vacuum_plain, progress)
        for contest, plan in zip(chosen, schedules, strict=True):
            # One after the other, and each from a clean start: the plain table slows down with
            # every row it has left dead, and should answer here for its own alone.
            place.tidy(System.PLAIN)
            for number in range(plan.rounds):
                race.run(contest, plan, number)
    findings = _findings(chosen, race)
    if options.vacuum_plain:
        findings.notes.append("the plain table was vacuumed before each of its windows")
    return findings


@dataclass(frozen=True)
class Schedule:
    """So many rounds; in each, a turn of so many windows for either system."""

    rounds: int
    windows: int
    seconds: float

    @property
    def uncounted(self) -> int:
        """The first third of a turn: the way to the pace that the system settles at."""
        return self.windows // 3


def schedule(contest: Contest, seconds: float) -> Schedule:
    """What fits into this time, with an even number of rounds."""
    pairs = max(2.0, seconds / (2 * _WINDOW_SECONDS))
    rounds = _TURNS if contest.settles else 2 * round(pairs / 2)
    windows = round(pairs / rounds)
    return Schedule(rounds, windows, seconds / (2 * rounds * windows))


@dataclass
class Race:
    """Runs contests, and keeps their results."""

    place: Scratch
    clients: Crew
    vacuum_plain: bool
    progress: Progress
    rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def run(self, contest: Contest, plan: Schedule, number: int) -> None:
        self.progress.say(contest.what)
        works = [contest.left, contest.right]
        turns = {
            work: [self._measure(work, plan.seconds) for _ in range(plan.windows)]
            for work in (works if number % 2 == 0 else works[::-1])
        }
        left, right = (_rate(turns[work][plan.uncounted :]) for work in works)
        self.rates.setdefault(contest.figure, []).append((left, right))
        self.samples += [
            {"figure": contest.figure, "round": number, "window": place, **window.as_json()}
            for windows in turns.values()
            for place, window in enumerate(windows)
        ]

    def _measure(self, work: Work, seconds: float) -> Window:
        """A window; its remains are deleted before the next one."""
        if self.vacuum_plain and work.system is System.PLAIN:
            self.place.tidy(System.PLAIN)
        window = self.clients.run(work, seconds)
        if work.kind is Kind.CYCLE:
            self.place.drain(work.system, work.queue)
        else:
            self.place.purge(work.system, work.queue)
        self.progress.step()
        return window


def _rate(windows: list[Window]) -> float:
    return sum(window.messages for window in windows) / sum(window.seconds for window in windows)


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
