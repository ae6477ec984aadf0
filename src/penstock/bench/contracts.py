"""`bench contracts`: other people's SQL on Penstock, beside what it was written for."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from penstock.bench import wire
from penstock.bench.comparison import Comparison
from penstock.bench.crew import Crew, Window, crew
from penstock.bench.driver import PAYLOAD_BYTES, Kind, Work, enqueue_step
from penstock.bench.errors import BenchError
from penstock.bench.options import Options
from penstock.bench.pin import Pin, pinned
from penstock.bench.progress import Progress
from penstock.bench.report import Figures, Findings, Row, rate_text, ratio_text
from penstock.bench.scratch import HISTORY_OFF, Scratch
from penstock.bench.session import Session, System
from penstock.bench.statements import resource, statement
from penstock.errors import MigrationError
from penstock.migrations import Migrator

QUEUE = "bench-pgmq"
NATIVE = "bench-native"
MDB = "bench-mdb"
QUEUES = {QUEUE: HISTORY_OFF, NATIVE: HISTORY_OFF, MDB: HISTORY_OFF}
FULL_SECONDS = 480.0

# The claim of the mdb_queue contract has its number in its text.
_BATCH = 10
_WINDOW_SECONDS = 1.0
# Where a read takes seconds, a window has to have some of them in it.
_LONG_WINDOW_SECONDS = 6.0
_SHARES = {"unpinned": 0.5, "pinned": 0.3, "scheduled": 0.15, "claim": 0.05}
_TURNS = 2
# Plans are made at the first few calls.
_UNCOUNTED_CLAIMS = 20
_LOAD_COUNT = 10_000
_MOST_PAIRS = 300
_METHOD = (
    "Cycle: pgmq.send_batch of {batch}, pgmq.read of {batch} for 30 s, pgmq.delete of what came, "
    "in three commits, payloads of 200 bytes, synchronous commit off, {clients} clients; beside it "
    "a stand-in of PGMQ's own shape (pgmq_table.sql). pgmq_cycle: in turns of a minute in the full "
    "form, A B B A, of which the last two thirds count: the pace either settles at, with "
    "autovacuum as the server has it. _pinned: totals of the last windows under a transaction that "
    "holds the horizon, after {messages:,} messages went through Penstock under it. _scheduled_1m: "
    "totals with {scheduled:,} messages delayed by hours in the queue. mdb_claim_over_native: the "
    "median time of penstock.claim / that of the claim statement of mdb_queue, 10 messages each, "
    "one client, in turns; enqueueing and acks are not timed."
)


class Side(StrEnum):
    PGMQ = "pgmq"
    STANDIN = "standin"


class Contract(StrEnum):
    MDB = "mdb"


@dataclass
class Pairs:
    """Windows of both sides, in turn."""

    windows: dict[Side, list[Window]] = field(default_factory=lambda: {side: [] for side in Side})

    def __len__(self) -> int:
        return len(self.windows[Side.PGMQ])

    def messages(self, side: Side) -> int:
        return sum(window.messages for window in self.windows[side])

    def rate(self, side: Side, uncounted: int = 0) -> float:
        """Of all windows together, but for the first."""
        counted = self.windows[side][uncounted:]
        return sum(w.messages for w in counted) / max(sum(w.seconds for w in counted), 1e-9)

    @property
    def ratio(self) -> float | None:
        theirs = self.rate(Side.STANDIN)
        return self.rate(Side.PGMQ) / theirs if theirs else None

    def as_json(self) -> list[dict[str, Any]]:
        return [window.as_json() for side in Side for window in self.windows[side]]


class Turns(list[Pairs]):
    """Long turns of either side, of which the first third is the way to the settled pace."""

    def rates(self, side: Side) -> tuple[float, ...]:
        return tuple(turn.rate(side, len(turn) // 3) for turn in self)

    @property
    def ratio(self) -> float | None:
        return Comparison(self.rates(Side.PGMQ), self.rates(Side.STANDIN)).ratio


@dataclass
class Race:
    """Both sides on the same queue, window by window."""

    place: Scratch
    clients: Crew
    sessions: dict[Side, Session]
    progress: Progress
    pairs: dict[str, Pairs] = field(default_factory=dict)

    def pair(self, name: str, what: str, seconds: float) -> Pairs:
        """One pair of windows more."""
        pairs = self.pairs.setdefault(name, Pairs())
        self.progress.say(f"{what}: {pairs.messages(Side.PGMQ):,} messages")
        for side in list(Side) if len(pairs) % 2 == 0 else list(reversed(Side)):
            pairs.windows[side].append(self.window(side, seconds))
        return pairs

    def window(self, side: Side, seconds: float) -> Window:
        """What it left behind is gone before the next one."""
        window = self.clients.run(Work(side, QUEUE, Kind.CYCLE, _BATCH), seconds)
        session = self.sessions[side]
        while session.ack(session.claim(QUEUE.encode(), wire.int4(1000))):
            pass
        return window


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    total = options.seconds or FULL_SECONDS
    scheduled = 2 * options.messages
    with ExitStack() as stack:
        stack.enter_context(_pgmq(place))
        place.connection.execute(resource("pgmq_table.sql").encode())
        place.run("pgmq.create", queue=QUEUE)
        names: dict[StrEnum, str] = dict.fromkeys(Side, QUEUE)
        sessions = {s: stack.enter_context(Session(place.dsn, s, QUEUE)) for s in Side}
        for session in sessions.values():
            session.synchronous_commit(False)
        clients = stack.enter_context(crew(place.dsn, options.clients, names))
        race = Race(place, clients, sessions, progress)
        turns = _unpinned(race, total)
        reached = _pinned(race, total, options)
        _scheduled(race, total, scheduled)
    progress.say("claims of mdb_queue")
    claims = _claims(place, total * _SHARES["claim"])
    return _findings(race, turns, claims, options, reached)


@contextmanager
def _pgmq(place: Scratch) -> Iterator[None]:
    """Schema pgmq, for the time of the benchmark if it is not there anyway."""
    migrator = Migrator(place.connection, contracts=["pgmq"])
    if "pgmq" in migrator.status().contracts:
        yield
        return
    try:
        migrator.up()
    except MigrationError as error:
        raise BenchError(f"{error.message}", hint="Run it in another database.") from error
    try:
        yield
    finally:
        # With its views, while their schema is there.
        place.connection.execute(statement("drop_queue"), {"name": QUEUE})
        place.run("pgmq.drop")
        place.run("pgmq.forget")


def _unpinned(race: Race, total: float) -> Turns:
    """In turns of a minute in the full form, as `bench engine` does it, for the same reasons."""
    race.place.run("standin.tidy")
    windows = max(3, round(total * _SHARES["unpinned"] / (2 * _TURNS * _WINDOW_SECONDS)))
    length = total * _SHARES["unpinned"] / (2 * _TURNS * windows)
    turns = Turns()
    for number in range(_TURNS):
        turns.append(Pairs())
        for side in list(Side) if number % 2 == 0 else list(reversed(Side)):
            race.progress.say(f"unpinned: {side}")
            turns[-1].windows[side] = [race.window(side, length) for _ in range(windows)]
    return turns


def _pinned(race: Race, total: float, options: Options) -> bool:
    """Whether so many messages passed as were asked for."""
    count, length = _schedule(total * _SHARES["pinned"] / 2, _LONG_WINDOW_SECONDS)
    with pinned(race.place.dsn, Pin.READER):
        deadline = time.monotonic() + total * _SHARES["pinned"] / 2
        pairs = race.pair("pin", "pinned", min(length, 2 * _WINDOW_SECONDS))
        while pairs.messages(Side.PGMQ) < options.messages and len(pairs) < _MOST_PAIRS:
            if options.seconds is not None and time.monotonic() > deadline:
                break
            race.pair("pin", "pinned", min(length, 2 * _WINDOW_SECONDS))
        for _ in range(count):
            race.pair("cycle_pinned", "pinned, the last windows", length)
    race.place.run("standin.tidy")
    return pairs.messages(Side.PGMQ) >= options.messages


def _scheduled(race: Race, total: float, messages: int) -> None:
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    for side in Side:
        race.progress.say(f"loading {messages:,} delayed messages: {side}")
        for done in range(0, messages, _LOAD_COUNT):
            parameters: dict[str, Any] = {"queue": QUEUE} if side is Side.PGMQ else {}
            count = min(_LOAD_COUNT, messages - done)
            race.place.run(f"{side}.load_scheduled", payload=payload, count=count, **parameters)
        race.place.run(f"{side}.tidy")
    race.place.checkpoint()
    count, length = _schedule(total * _SHARES["scheduled"], _LONG_WINDOW_SECONDS)
    for _ in range(count):
        race.pair("cycle_scheduled", f"{messages:,} delayed", length)


def _schedule(seconds: float, window: float) -> tuple[int, float]:
    """An even number of pairs of windows, and how long each window is."""
    count = max(2, round(seconds / (2 * window) / 2) * 2)
    return count, seconds / (2 * count)


@dataclass
class Claims:
    """The times of claims of ten, in turns."""

    native: list[float] = field(default_factory=list)
    mdb: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return median(self.native) / median(self.mdb) if self.mdb else None


def _claims(place: Scratch, seconds: float) -> Claims:
    found = Claims()
    payloads = [wire.json_payload(PAYLOAD_BYTES, number) for number in range(_BATCH)]
    with (
        Session(place.dsn, System.PENSTOCK, "bench") as native,
        Session(place.dsn, Contract.MDB, "bench") as mdb,
    ):
        lanes = [(native, NATIVE, found.native), (mdb, MDB, found.mdb)]
        for session, queue, _ in lanes:
            session.synchronous_commit(False)
            enqueue_step(session, queue, payloads * 5)()
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(found.mdb) < 2 * _UNCOUNTED_CLAIMS:
            for session, queue, times in [*lanes, *reversed(lanes)]:
                enqueue_step(session, queue, payloads)()
                begun = time.perf_counter()
                claimed = session.claim(queue.encode(), wire.int4(_BATCH))
                times.append(time.perf_counter() - begun)
                if claimed.ntuples != _BATCH:
                    raise BenchError(f"{session.system}: a claim brought {claimed.ntuples} of 10")
                session.ack(claimed)
    found.native, found.mdb = found.native[_UNCOUNTED_CLAIMS:], found.mdb[_UNCOUNTED_CLAIMS:]
    return found


def _findings(
    race: Race, turns: Turns, claims: Claims, options: Options, reached: bool
) -> Findings:
    pinned, scheduled = race.pairs["cycle_pinned"], race.pairs["cycle_scheduled"]
    figures: Figures = {
        "pgmq_cycle": turns.ratio,
        "pgmq_cycle_pinned": pinned.ratio,
        "pgmq_cycle_scheduled_1m": scheduled.ratio,
        "mdb_claim_over_native": claims.ratio,
    }
    ours, theirs = (rate_text(median(turns.rates(side))) for side in Side)
    rows = [
        Row("cycle", ours, theirs, ratio_text(turns.ratio)),
        _row("cycle, pinned", pinned),
        _row("cycle, delayed", scheduled),
        Row("claim of mdb_queue", _milliseconds(claims.mdb), ""),
        Row("  penstock.claim", _milliseconds(claims.native), ""),
        Row("  penstock.claim / it, in time", ratio_text(claims.ratio), ""),
    ]
    samples: dict[str, Any] = {name: pairs.as_json() for name, pairs in race.pairs.items()}
    samples["cycle"] = [turn.as_json() for turn in turns]
    samples["claims"] = [{"native": len(claims.native), "mdb": len(claims.mdb)}]
    method = _METHOD.format(
        batch=_BATCH,
        clients=options.clients,
        messages=options.messages,
        scheduled=2 * options.messages,
    )
    return Findings(
        method,
        figures,
        rows,
        _notes(race, options, reached),
        samples,
        headings=("Penstock", "PGMQ's shape", "Penstock / PGMQ's shape"),
    )


def _row(what: str, pairs: Pairs) -> Row:
    ours, theirs = (rate_text(pairs.rate(side)) for side in Side)
    return Row(what, ours, theirs, ratio_text(pairs.ratio))


def _milliseconds(times: list[float]) -> str:
    return f"{median(times) * 1000:.3f} ms" if times else "not measured"


def _notes(race: Race, options: Options, reached: bool) -> list[str]:
    notes = []
    if not reached:
        passed = race.pairs["pin"].messages(Side.PGMQ)
        notes.append(
            f"only {passed:,} messages passed through Penstock before the pinned figure was taken, "
            f"not {options.messages:,}: leave --seconds out, or make it longer"
        )
    if options.messages < 500_000:
        notes.append(f"pgmq_cycle_scheduled_1m was measured with {2 * options.messages:,} messages")
    for name in ("cycle_pinned", "cycle_scheduled"):
        if not race.pairs[name].messages(Side.STANDIN):
            notes.append(f"{name}: PGMQ's shape did not finish a single cycle in these windows")
    return notes
