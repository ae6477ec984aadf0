"""What limits cost producers whose transactions take long, and how a crowd of consumers fares."""

import time
from statistics import median

from penstock_benchmarks import wire
from penstock_benchmarks.commit_found import GROUPED, LIMITED, MIXED, PGMQ_QUEUE, QUEUE, Bench
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.contract_findings import Side
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.load_process import Hold, Mix, Poll
from penstock_benchmarks.report import Row, rate_text, ratio_text
from penstock_benchmarks.session import Session, System

PRODUCERS = 16
CROWD = 64

_HOLD_SECONDS = 0.05
_RAMP_SECONDS = 0.3
_WINDOW_SECONDS = 5.0
# The crowd always finds something: a consumer that comes back empty measures the pause.
_STOCK, _REFILL = 2000, 500
_REFILL_EVERY = 0.02
_MIXED_PRODUCERS, _MIXED_CONSUMERS = 14, 4


def limits(bench: Bench, seconds: float) -> None:
    """Sixteen producers in transactions of 50 ms: with max_depth, with one group, with neither."""
    holds = {
        queue: Hold(System.PENSTOCK, queue, PRODUCERS, _HOLD_SECONDS, 0.0, group)
        for queue, group in ((QUEUE, None), (LIMITED, None), (GROUPED, "group"))
    }
    rates: dict[str, list[float]] = {queue: [] for queue in holds}
    rounds, window = _rounds(seconds, len(holds))
    for number in range(rounds):
        for queue in list(holds) if number % 2 == 0 else list(reversed(holds)):
            bench.progress.say(f"{PRODUCERS} producers: {queue}")
            rates[queue].append(_committed(bench, holds[queue], window))
            bench.found.sample("limits", queue=queue, seconds=window, rate=rates[queue][-1])
            bench.place.purge(System.PENSTOCK, queue)
    free = tuple(rates[QUEUE])
    bench.found.rows.append(Row(f"{PRODUCERS} producers, plain queue", rate_text(median(free)), ""))
    for figure, queue, what in (
        ("depth_limit_over_free", LIMITED, "max_depth"),
        ("group_over_free", GROUPED, "one group"),
    ):
        ratio = Comparison(tuple(rates[queue]), free).ratio
        bench.found.figures[figure] = ratio
        text = rate_text(median(rates[queue]))
        bench.found.rows.append(Row(f"  {what} / plain queue", text, "", ratio_text(ratio)))


def _committed(bench: Bench, hold: Hold, seconds: float) -> float:
    """Transactions a second."""
    bench.holders.start(hold)
    time.sleep(_RAMP_SECONDS)
    bench.holders.read()
    begun = time.monotonic()
    time.sleep(seconds)
    committed = bench.holders.read().events
    elapsed = time.monotonic() - begun
    bench.holders.end()
    return len(committed) / elapsed


def crowd(bench: Bench, seconds: float) -> None:
    """64 connections that read one message at a time and archive it."""
    rates: dict[Side, list[float]] = {side: [] for side in Side}
    rounds, window = _rounds(seconds, len(Side))
    for number in range(rounds):
        for side in list(Side) if number % 2 == 0 else list(reversed(Side)):
            bench.progress.say(f"{CROWD} connections: {side}")
            rates[side].append(_consumed(bench, side, window))
            bench.found.sample("crowd_64", side=side, seconds=window, rate=rates[side][-1])
            parameters = {"queue": PGMQ_QUEUE} if side is Side.PGMQ else {}
            bench.place.run(f"{side}.purge", **parameters)
            bench.place.run(f"{side}.tidy")
    ratio = Comparison(tuple(rates[Side.PGMQ]), tuple(rates[Side.STANDIN])).ratio
    bench.found.figures["crowd_64_over_pgmq"] = ratio
    ours, theirs = (rate_text(median(rates[side])) for side in Side)
    bench.found.rows.append(
        Row(f"read and archive, {CROWD} connections", ours, theirs, ratio_text(ratio))
    )


def _consumed(bench: Bench, side: Side, seconds: float) -> float:
    """Messages a second that the crowd has read."""
    with Session(bench.place.dsn, side, PGMQ_QUEUE) as session:
        session.synchronous_commit(False)
        bodies = [wire.jsonb(wire.json_payload(PAYLOAD_BYTES))] * _REFILL
        payloads = wire.array(wire.JSONB_OID, bodies)
        stock = 0

        def work_on(span: float) -> tuple[int, float]:
            """Keeps the queue stocked for so long: how many were read, in how many seconds."""
            nonlocal stock
            total, begun = 0, time.monotonic()
            while time.monotonic() < begun + span:
                read = len(bench.pollers.read())
                total, stock = total + read, stock - read
                while stock < _STOCK:
                    session.enqueue_many(PGMQ_QUEUE.encode(), payloads)
                    stock += _REFILL
                time.sleep(_REFILL_EVERY)
            return total, time.monotonic() - begun

        bench.pollers.start(Poll(side, PGMQ_QUEUE, CROWD, 1, archive=True))
        work_on(_RAMP_SECONDS)
        read, elapsed = work_on(seconds)
        bench.pollers.end()
    return read / elapsed


def deadlocks(bench: Bench, seconds: float) -> None:
    """Transactions of 1 to 20 messages, 20 groups, 3 priorities and keys, with consumers."""
    bench.progress.say("mixed load")
    bench.pollers.start(Poll(System.PENSTOCK, MIXED, _MIXED_CONSUMERS, 10))
    bench.holders.start(Mix(MIXED, _MIXED_PRODUCERS))
    time.sleep(seconds)
    log = bench.holders.end()
    bench.pollers.end()
    bench.place.purge(System.PENSTOCK, MIXED)
    bench.found.figures["deadlocks"] = float(log.deadlocks)
    committed = len(log.events)
    bench.found.sample(
        "deadlocks", seconds=seconds, transactions=committed, deadlocks=log.deadlocks
    )
    text = f"{log.deadlocks} in {committed:,} transactions"
    bench.found.rows.append(Row("deadlocks in a mixed load", text, ""))


def _rounds(seconds: float, sides: int) -> tuple[int, float]:
    """How many windows each side has, and how long each is."""
    rounds = max(1, round(seconds / sides / _WINDOW_SECONDS))
    return rounds, seconds / sides / rounds
