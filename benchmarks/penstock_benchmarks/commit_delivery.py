"""How soon a message is delivered after the commit of the transaction that enqueued it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec

import psycopg

from penstock_benchmarks import wire
from penstock_benchmarks.commit_found import PGMQ_QUEUE, QUEUE, Bench, Delays
from penstock_benchmarks.contract_findings import Side
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.load_process import Hold, Poll, Send
from penstock_benchmarks.report import Row, ratio_text
from penstock_benchmarks.session import System
from penstock_benchmarks.worker_process import Serve


class Http(StrEnum):
    LONG_POLL = "long_poll"


QUICK_RATES = (0, 200, 2000)
HOLDERS = 4
COMMIT_MILLISECONDS = (5, 20, 50)
CONSUMERS = (1, 16, 64)

_CONCURRENCY = 16
_QUICK_PER_CONNECTION = 500
_RAMP_SECONDS = 0.3
# How long a message may be missing before it counts as not delivered.
_GRACE_SECONDS = 3.0
_READ_EVERY = 0.005
_WINDOW_SECONDS = 5.0
_CLAIM_COUNT = 10
# A drain at full speed: the worker always has this many messages ahead of it, some 20 ms of work.
_STOCK, _REFILL = 200, 100
# Commits of 50 ms at 100 a second need five connections at least.
_SLOW_RATE, _SLOW_SENDERS, _SLOW_CONSUMERS = 100, 8, 4
_CALLS: dict[StrEnum, str] = {
    System.PENSTOCK: "claim",
    Side.PGMQ: "pgmq.read",
    Http.LONG_POLL: "long poll",
}
_LOOP_RATE, _LOOP_HOLD_SECONDS = 200, 0.05

Received = dict[int, float]


@dataclass
class Stock:
    """Keeps the worker busy with messages in batches, never more than a few ahead of it."""

    bench: Bench
    waiting: set[int] = field(default_factory=set)
    sent: int = 0

    def refill(self, started: Received) -> None:
        """`started` are the messages since the last call."""
        self.waiting -= started.keys()
        session = self.bench.place.sessions[System.PENSTOCK]
        while len(self.waiting) <= _STOCK - _REFILL:
            bodies = [wire.jsonb(wire.json_payload(PAYLOAD_BYTES))] * _REFILL
            answer = session.enqueue_many(QUEUE.encode(), wire.array(wire.JSONB_OID, bodies))
            ids = (answer.get_value(row, 0) or b"" for row in range(answer.ntuples))
            self.waiting.update(int.from_bytes(id) for id in ids)
            self.sent += _REFILL


def transactions(bench: Bench, name: str, hold: float, drain: bool, seconds: float) -> None:
    """`hold` seconds between the enqueue and the commit, with each rate of quick messages."""
    loads: list[int | None] = [*QUICK_RATES, *([None] if drain else [])]
    window = seconds / len(loads)
    held = min(hold, window / 3)
    if held < hold:
        bench.found.notes.append(
            f"{name}: transactions were held for {held:.2f} s instead of {hold:g} s, "
            "because --seconds is too short for more"
        )
    found: dict[int | None, Delays] = {}
    with bench.worker.doing(Serve((QUEUE,), _CONCURRENCY, keep_starts=True)):
        for rate in loads:
            what = "a drain" if rate is None else f"{rate:,}/s"
            bench.progress.say(f"{name} with {what}")
            found[rate] = _beside_worker(bench, name, held, rate, window)
            bench.found.rows.append(Row(f"{name} with {what}", found[rate].text, ""))
    figures = bench.found.figures
    steady = [found[rate] for rate in QUICK_RATES]
    figures[f"{name}_p50_ms"] = _worst([each.at(0.5) for each in steady])
    figures[f"{name}_p99_ms"] = _worst([each.at(0.99) for each in steady])
    if drain:
        figures["drain_p50_ms"], figures["drain_p99_ms"] = (
            found[None].at(0.5),
            found[None].at(0.99),
        )


def _beside_worker(
    bench: Bench, name: str, hold: float, rate: int | None, seconds: float
) -> Delays:
    """One window: four producers with transactions, and quick messages or a drain."""
    received: Received = {}
    stock = Stock(bench) if rate is None else None
    if rate:
        connections = -(-rate // _QUICK_PER_CONNECTION)
        bench.senders.start(Send(System.PENSTOCK, QUEUE, connections, rate))
    bench.holders.start(Hold(System.PENSTOCK, QUEUE, HOLDERS, hold))
    _work_on(bench, _RAMP_SECONDS, received, stock)
    # What the ramp has committed does not count.
    bench.holders.read()
    if rate:
        bench.senders.read()
    begun, sent_before = time.monotonic(), stock.sent if stock else 0
    _work_on(bench, seconds, received, stock)
    committed = bench.holders.end().events
    quick = bench.senders.end().events if rate else []
    elapsed = time.monotonic() - begun
    wanted = {id for id, _ in committed + quick}
    deadline = time.monotonic() + _GRACE_SECONDS
    while wanted - received.keys() and time.monotonic() < deadline:
        _work_on(bench, _READ_EVERY, received, None)
    delays, others = Delays().add(committed, received), Delays().add(quick, received)
    _note_missing(bench, name, delays.missing + others.missing)
    sent = len(quick) if stock is None else stock.sent - sent_before
    bench.found.sample(
        name,
        beside="drain" if rate is None else rate,
        hold_seconds=hold,
        beside_rate=round(sent / elapsed, 1),
        held=delays.as_json(),
        quick=others.as_json(),
    )
    return delays


def _work_on(bench: Bench, seconds: float, received: Received, stock: Stock | None) -> None:
    """Lets the load continue for a while; a drain needs new messages."""
    until = time.monotonic() + seconds
    while True:
        started = bench.worker.read().starts
        received.update(started)
        if stock is not None:
            stock.refill(started)
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.2 if stock is None else _READ_EVERY))


def slow_commits(bench: Bench, seconds: float) -> None:
    """Autocommit messages whose commits take long, claimed in a polling loop."""
    bench.found.figures["slow_commit_p99_over_plain"] = None
    try:
        with psycopg.connect(bench.place.dsn) as connection:
            connection.execute("set commit_delay = 0")
    except psycopg.errors.InsufficientPrivilege:
        bench.found.notes.append(
            "slow_commit_p99_over_plain was not measured: only a superuser may set commit_delay"
        )
        return
    if bench.place.run("setting", setting="fsync") == "off":
        bench.found.notes.append("fsync is off, so commit_delay has no effect: no commit was slow")
    sides: tuple[StrEnum, ...] = (System.PENSTOCK, System.PLAIN)
    ratios = []
    for milliseconds in COMMIT_MILLISECONDS:
        what = f"commits of {milliseconds} ms"
        delays: dict[StrEnum, Delays] = {side: Delays() for side in sides}
        for side, window in _turns(sides, seconds / len(COMMIT_MILLISECONDS)):
            bench.progress.say(f"{what}: {side}")
            send = Send(side, QUEUE, _SLOW_SENDERS, _SLOW_RATE, milliseconds / 1000)
            poll = Poll(side, QUEUE, _SLOW_CONSUMERS, _CLAIM_COUNT)
            _, quick = _loop(bench, "slow_commit", None, send, poll, window)
            _extend(delays[side], quick)
        ours, plain = delays[System.PENSTOCK], delays[System.PLAIN]
        ratios.append(_over(ours, plain))
        bench.found.rows.append(
            Row(f"{what}, plain table", ours.text, plain.text, ratio_text(ratios[-1]))
        )
    bench.found.figures["slow_commit_p99_over_plain"] = _worst(ratios)


def sql_loops(bench: Bench, seconds: float) -> None:
    """Transactions of 50 ms and quick messages, claimed in a polling loop."""
    sides: tuple[StrEnum, ...] = (System.PENSTOCK, Side.PGMQ, Side.STANDIN, *_http(bench))
    ratios: dict[StrEnum, list[float | None]] = {side: [] for side in sides}
    for consumers in CONSUMERS:
        held: dict[StrEnum, Delays] = {side: Delays() for side in sides}
        quick: dict[StrEnum, Delays] = {side: Delays() for side in sides}
        for side, window in _turns(sides, seconds / len(CONSUMERS)):
            bench.progress.say(f"{consumers} consumers: {side}")
            queue = PGMQ_QUEUE if side is Side.PGMQ else QUEUE
            system = System.PENSTOCK if side is Http.LONG_POLL else side
            hold = Hold(system, queue, HOLDERS, _LOOP_HOLD_SECONDS)
            send = Send(system, queue, 1, _LOOP_RATE)
            poll = Poll(side, queue, consumers, _CLAIM_COUNT)
            found = _loop(bench, "sql_loop", hold, send, poll, window)
            _extend(held[side], found[0])
            _extend(quick[side], found[1])
        for side in sides:
            for what, delays in (("held", held), ("quick", quick)):
                ratio = _over(delays[side], delays[Side.STANDIN])
                ratios[side].append(ratio)
                texts = (delays[side].text, delays[Side.STANDIN].text, ratio_text(ratio))
                if side is not Side.STANDIN:
                    bench.found.rows.append(Row(f"{_CALLS[side]}, {consumers}: {what}", *texts))
    loops = ratios[System.PENSTOCK] + ratios[Side.PGMQ]
    bench.found.figures["sql_loop_p99_over_plain"] = _worst(loops)
    long_polls = ratios.get(Http.LONG_POLL, [])
    bench.found.figures["long_poll_p99_over_plain"] = _worst(long_polls)


def _http(bench: Bench) -> list[StrEnum]:
    """Long polls take part where the server is installed."""
    if find_spec("uvicorn") is None:
        bench.found.notes.append("long polls were not measured: penstock[server] is not installed")
        return []
    return [Http.LONG_POLL]


def _loop(
    bench: Bench, name: str, hold: Hold | None, send: Send, poll: Poll, seconds: float
) -> tuple[Delays, Delays]:
    """One window of one side: the delays of transactions, and those of quick messages."""
    consumers = bench.long_pollers if poll.system is Http.LONG_POLL else bench.pollers
    consumers.start(poll)
    bench.senders.start(send)
    if hold:
        bench.holders.start(hold)
    time.sleep(_RAMP_SECONDS)
    bench.senders.read()
    if hold:
        bench.holders.read()
    time.sleep(seconds)
    committed = bench.holders.end().events if hold else []
    quick = bench.senders.end().events
    wanted = {id for id, _ in committed + quick}
    received = dict(consumers.read())
    deadline = time.monotonic() + _GRACE_SECONDS
    while wanted - received.keys() and time.monotonic() < deadline:
        time.sleep(_READ_EVERY)
        received.update(consumers.read())
    delays = Delays().add(committed, received), Delays().add(quick, received)
    consumers.end()
    _purge(bench, send.system, poll.queue)
    _note_missing(bench, f"{name}, {poll.system}", delays[0].missing + delays[1].missing)
    bench.found.sample(
        name,
        system=poll.system,
        consumers=poll.connections,
        commit_milliseconds=send.commit_seconds * 1000,
        seconds=round(seconds, 3),
        held=delays[0].as_json(),
        quick=delays[1].as_json(),
    )
    return delays


def _turns(sides: Sequence[StrEnum], seconds: float) -> list[tuple[StrEnum, float]]:
    """Whose window it is, and how long it is: A B C, C B A, and so on."""
    rounds = max(1, round(seconds / len(sides) / _WINDOW_SECONDS))
    window = seconds / len(sides) / rounds
    order = [list(sides), list(reversed(sides))]
    return [(side, window) for number in range(rounds) for side in order[number % 2]]


def _purge(bench: Bench, system: StrEnum, queue: str) -> None:
    """Both sides begin their next window with an empty queue."""
    parameters = {"queue": queue} if system in (System.PENSTOCK, Side.PGMQ) else {}
    bench.place.run(f"{system}.purge", **parameters)
    bench.place.run(f"{system}.tidy")


def _extend(delays: Delays, more: Delays) -> None:
    delays.values += more.values
    delays.missing += more.missing


def _over(ours: Delays, theirs: Delays) -> float | None:
    """p99 over p99, each of all windows of the run."""
    over, under = ours.at(0.99), theirs.at(0.99)
    return over / under if over is not None and under else None


def _worst(values: Sequence[float | None]) -> float | None:
    return max((each for each in values if each is not None), default=None)


def _note_missing(bench: Bench, name: str, missing: int) -> None:
    if missing:
        bench.found.notes.append(
            f"{name}: {missing} messages were not delivered {_GRACE_SECONDS:g} s after the end "
            "of a window; they count as delivered then"
        )
