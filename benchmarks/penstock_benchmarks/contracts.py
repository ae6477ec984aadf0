"""`bench contracts`: the SQL interfaces of others on Penstock, compared with the originals."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.db.migrations import Migrator
from penstock.errors import MigrationError
from penstock_benchmarks import wire
from penstock_benchmarks.command import CONTRACT_FIGURES as FIGURES
from penstock_benchmarks.contract_findings import BATCH, Claims, Found, Pairs, Side, Turns
from penstock_benchmarks.crew import Crew, Window, crew
from penstock_benchmarks.driver import PAYLOAD_BYTES, Kind, Work, enqueue_step
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.options import Options
from penstock_benchmarks.pin import Pin, pinned
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.session import Session, System
from penstock_benchmarks.statements import resource, statement

QUEUE = "bench-pgmq"
NATIVE = "bench-native"
MDB = "bench-mdb"
QUEUES = {QUEUE: HISTORY_OFF, NATIVE: HISTORY_OFF, MDB: HISTORY_OFF}
# How many seconds each takes in the full form.
FULL_SECONDS = dict(zip(FIGURES, (240.0, 240.0, 144.0, 72.0, 24.0), strict=True))

_WINDOW_SECONDS = 1.0
# Where a read takes seconds, a window has to have some of them in it.
_LONG_WINDOW_SECONDS = 6.0
_TURNS = 2
# Plans are made at the first few calls.
_UNCOUNTED_CLAIMS = 20
_LOAD_COUNT = 10_000
_MOST_PAIRS = 300
_SETTLING = {"pgmq_cycle": Kind.CYCLE, "pgmq_cycle_by_one": Kind.CYCLE_BY_ONE}


class Contract(StrEnum):
    MDB = "mdb"


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
            pairs.windows[side].append(self.window(side, seconds, Kind.CYCLE))
        return pairs

    def window(self, side: Side, seconds: float, kind: Kind) -> Window:
        """Its remains are deleted before the next one."""
        window = self.clients.run(Work(side, QUEUE, kind, BATCH), seconds)
        session = self.sessions[side]
        while session.ack(session.claim(QUEUE.encode(), wire.int4(1000))):
            pass
        return window


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    chosen = [name for name in FIGURES if not options.only or name in options.only]
    stretch = (options.seconds or 0) / sum(FULL_SECONDS[name] for name in chosen) or 1.0
    seconds = {name: FULL_SECONDS[name] * stretch for name in chosen}
    found = Found(options)
    if set(chosen) != {"mdb_claim_over_native"}:
        _cycles(place, options, seconds, found, progress)
    if "mdb_claim_over_native" in seconds:
        progress.say("claims of mdb_queue")
        found.claims = _claims(place, seconds["mdb_claim_over_native"])
    return found.findings()


def _cycles(
    place: Scratch,
    options: Options,
    seconds: Mapping[str, float],
    found: Found,
    progress: Progress,
) -> None:
    with ExitStack() as stack:
        stack.enter_context(pgmq_schema(place, QUEUE))
        names: dict[StrEnum, str] = dict.fromkeys(Side, QUEUE)
        sessions = {s: stack.enter_context(Session(place.dsn, s, QUEUE)) for s in Side}
        for session in sessions.values():
            session.synchronous_commit(False)
        clients = stack.enter_context(crew(place.dsn, options.clients, names))
        race = Race(place, clients, sessions, progress)
        for name, kind in _SETTLING.items():
            if name in seconds:
                found.turns[name] = _unpinned(race, seconds[name], kind)
        if "pgmq_cycle_pinned" in seconds:
            found.reached = _pinned(race, seconds["pgmq_cycle_pinned"], options)
        if "pgmq_cycle_scheduled_1m" in seconds:
            _scheduled(race, seconds["pgmq_cycle_scheduled_1m"], 2 * options.messages)
        found.pairs = race.pairs


@contextmanager
def pgmq_schema(place: Scratch, queue: str) -> Iterator[None]:
    """Schema pgmq with this queue, for the time of the benchmark if it is not there anyway."""
    migrator = Migrator(place.connection, contracts=["pgmq"])
    if "pgmq" in migrator.status().contracts:
        _create(place, queue)
        yield
        return
    try:
        migrator.up()
    except MigrationError as error:
        raise BenchError(f"{error.message}", hint="Run it in another database.") from error
    try:
        _create(place, queue)
        yield
    finally:
        # With its views, while their schema is there.
        place.connection.execute(statement("drop_queue"), {"name": queue})
        place.run("pgmq.drop")
        place.run("pgmq.forget")


def _create(place: Scratch, queue: str) -> None:
    """The queue as pgmq.create makes it, and its stand-in."""
    place.connection.execute(resource("pgmq_table.sql").encode())
    place.run("pgmq.create", queue=queue)


def _unpinned(race: Race, seconds: float, kind: Kind) -> Turns:
    """In turns of a minute in the full form, as `bench engine` does it, for the same reasons."""
    race.place.run("standin.tidy")
    windows = max(3, round(seconds / (2 * _TURNS * _WINDOW_SECONDS)))
    length = seconds / (2 * _TURNS * windows)
    turns = Turns()
    for number in range(_TURNS):
        turns.append(Pairs())
        for side in list(Side) if number % 2 == 0 else list(reversed(Side)):
            race.progress.say(f"{kind}: {side}")
            turns[-1].windows[side] = [race.window(side, length, kind) for _ in range(windows)]
    return turns


def _pinned(race: Race, seconds: float, options: Options) -> bool:
    """Whether so many messages passed as were asked for."""
    count, length = _schedule(seconds / 2, _LONG_WINDOW_SECONDS)
    with pinned(race.place.dsn, Pin.READER):
        deadline = time.monotonic() + seconds / 2
        pairs = race.pair("pin", "pinned", min(length, 2 * _WINDOW_SECONDS))
        while pairs.messages(Side.PGMQ) < options.messages and len(pairs) < _MOST_PAIRS:
            if options.seconds is not None and time.monotonic() > deadline:
                break
            race.pair("pin", "pinned", min(length, 2 * _WINDOW_SECONDS))
        for _ in range(count):
            race.pair("pgmq_cycle_pinned", "pinned, the last windows", length)
    race.place.run("standin.tidy")
    return pairs.messages(Side.PGMQ) >= options.messages


def _scheduled(race: Race, seconds: float, messages: int) -> None:
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    for side in Side:
        race.progress.say(f"loading {messages:,} delayed messages: {side}")
        for done in range(0, messages, _LOAD_COUNT):
            parameters: dict[str, Any] = {"queue": QUEUE} if side is Side.PGMQ else {}
            count = min(_LOAD_COUNT, messages - done)
            race.place.run(f"{side}.load_scheduled", payload=payload, count=count, **parameters)
        race.place.run(f"{side}.tidy")
    race.place.checkpoint()
    count, length = _schedule(seconds, _LONG_WINDOW_SECONDS)
    for _ in range(count):
        race.pair("pgmq_cycle_scheduled_1m", f"{messages:,} delayed", length)


def _schedule(seconds: float, window: float) -> tuple[int, float]:
    """An even number of pairs of windows, and how long each window is."""
    count = max(2, round(seconds / (2 * window) / 2) * 2)
    return count, seconds / (2 * count)


def _claims(place: Scratch, seconds: float) -> Claims:
    found = Claims()
    payloads = [wire.json_payload(PAYLOAD_BYTES, number) for number in range(BATCH)]
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
                claimed = session.claim(queue.encode(), wire.int4(BATCH))
                times.append(time.perf_counter() - begun)
                if claimed.ntuples != BATCH:
                    raise BenchError(f"{session.system}: a claim brought {claimed.ntuples} of 10")
                session.ack(claimed)
    found.native, found.mdb = found.native[_UNCOUNTED_CLAIMS:], found.mdb[_UNCOUNTED_CLAIMS:]
    return found
