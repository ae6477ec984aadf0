"""What the contenders go through. Each scenario takes turns, and leaves rows behind."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from penstock_benchmarks.peers import chaos
from penstock_benchmarks.peers.contender import Contender
from penstock_benchmarks.peers.figures import OURS
from penstock_benchmarks.peers.pins import pinned, readers
from penstock_benchmarks.peers.run import Row, Run

WARM_UP_SECONDS = 1.0
FAR_AWAY_SECONDS = 6 * 3600
CALM = 1 / 3
"""The share of the full rate that any machine can enqueue at the same time."""


def clean(run: Run) -> None:
    """How fast a backlog is worked off, with nothing in the way."""
    plan = run.plan
    for handler_ms, rounds in ((0, plan.rounds), (1, plan.rounds_1ms)):
        for concurrency in plan.concurrency if rounds else ():
            name = f"clean-{concurrency}" + ("-1ms" if handler_ms else "")
            for number in range(rounds):
                for contender in run.turns(number):
                    _drain(run, contender, name, number, concurrency, handler_ms)


def rate(run: Run) -> None:
    """A steady stream of single messages: how soon each one's handler begins."""
    _rate(run, "rate", run.plan.rate_rounds)
    for by in run.plan.pins:
        with pinned(run.database.dsn, by):
            _rate(run, f"rate-pinned-{by}", run.plan.rate_pinned_rounds)


def _rate(run: Run, name: str, rounds: int) -> None:
    for number in range(rounds):
        for contender in run.turns(number):

            def work(contender: Contender = contender) -> Row:
                return _paced(run, contender, run.plan.rate, run.plan.rate_seconds)

            run.measure(contender, name, number, work)


def _paced(run: Run, contender: Contender, per_second: float, seconds: float) -> Row:
    count = round(per_second * seconds)
    run.database.vacuum(contender.relations)
    contender.start(run.plan.usual)
    before = run.database.gauges()
    began = time.monotonic()
    pace = contender.producer.call(
        "pace", first=contender.take_numbers(count), rate=per_second, seconds=seconds
    )
    enqueued = pace["count"] - len(pace["unsure"])
    _until_handled(contender, enqueued, run.plan.patience_seconds)
    seen = contender.worker.call("progress")
    after = run.database.gauges()
    window = {"after": began + WARM_UP_SECONDS, "before": began + seconds + 60}
    late = contender.worker.call("latencies", **window)
    weight = run.database.weight(contender.relations)
    contender.stop()
    if seen["distinct"] < enqueued:
        contender.producer.call("purge")
    return {
        "concurrency": run.plan.usual,
        "wanted": per_second,
        "messages": pace["count"],
        "handled": seen["handled"],
        # What a peer that cannot keep up had not come to in time is not lost.
        "unhandled": enqueued - seen["distinct"],
        "doubled": seen["handled"] - seen["distinct"],
        "offered": pace["offered"],
        "both": after.since(before),
        **{key: late.get(key) for key in ("p50", "p95", "p99", "max")},
        **weight,
    }


def held(run: Run) -> None:
    """The clean rate while another session pins the horizon, with unpinned windows around it."""
    plan = run.plan
    for by in plan.pins:
        _rounds(run, f"unpinned-{by}", plan.calm_rounds)
        with pinned(run.database.dsn, by):
            _rounds(run, f"pinned-{by}", plan.pinned_rounds)
        _rounds(run, f"unpinned-{by}", plan.calm_rounds, first=plan.calm_rounds)
        for contender in run.contenders:
            if contender.name == OURS:
                _pairs(run, contender, by)


def _pairs(run: Run, contender: Contender, by: str) -> None:
    """With and without a pin in turns: phases lie minutes apart, and the machine changes more in
    that time than the bar allows."""
    for number in range(run.plan.kept_pairs):
        for is_pinned in (number % 2 == 0, number % 2 != 0):
            with pinned(run.database.dsn, by) if is_pinned else contextlib.nullcontext():
                name = f"pair-{'pinned' if is_pinned else 'unpinned'}-{by}"
                _drain(run, contender, name, number, run.plan.usual, 0)


def read(run: Run) -> None:
    """Four sessions scan the queue's own tables meanwhile."""
    for number in range(run.plan.readers_rounds):
        for contender in run.turns(number):
            with readers(run.database.dsn, contender.relations):
                _drain(run, contender, "readers", number, run.plan.usual, 0)


def overload(run: Run) -> None:
    """A calm stream, then 1.5 times the full rate, then the calm stream again."""
    plan = run.plan
    if not plan.overload_seconds:
        return
    for contender in run.turns(0):

        def work(contender: Contender = contender) -> Row:
            return _overloaded(run, contender)

        run.measure(contender, "overload", 0, work, 3 * plan.limit_seconds)


def _overloaded(run: Run, contender: Contender) -> Row:
    plan = run.plan
    before = _longer(run, contender) or 1.0
    contender.start(plan.usual, expect=-1)
    calm = _poured(run, contender, CALM * before)
    over = _poured(run, contender, 1.5 * before)
    drained = _until_handled(contender, calm["count"] + over["count"], 20.0)
    again = _poured(run, contender, CALM * before)
    contender.stop()
    seen = contender.worker.call("progress")
    if drained is None:
        contender.producer.call("purge")
    count = calm["count"] + over["count"] + again["count"]
    return {
        "concurrency": plan.usual,
        "before_rate": before,
        "offered": over["offered"],
        "rate": over["rate"],
        "backlog": over["backlog"],
        "drain_seconds": drained,
        "after_rate": _longer(run, contender),
        # A peer with a backlog at that time has not recovered.
        "recovery": again["rate"] / calm["rate"] if drained is not None and calm["rate"] else 0.0,
        "lost": count - seen["distinct"] if drained is not None else None,
        "doubled": seen["handled"] - seen["distinct"],
        **run.database.weight(contender.relations),
    }


def _poured(run: Run, contender: Contender, per_second: float) -> dict[str, Any]:
    """Messages at a steady rate. Returns the rate of handled messages and the final backlog."""
    seconds = run.plan.overload_seconds
    handled = contender.worker.call("progress")["handled"]
    began = time.monotonic()
    poured: dict[str, Any] = contender.producer.call(
        "pour",
        first=contender.take_numbers(round(per_second * seconds) + 1000),
        rate=per_second,
        seconds=seconds,
        timeout=10 * seconds + 60,
    )
    took = time.monotonic() - began
    time.sleep(0.1)  # the last of them need not be waiting
    handled = contender.worker.call("progress")["handled"] - handled
    return {**poured, "rate": handled / took, "backlog": max(0, poured["count"] - handled)}


def _longer(run: Run, contender: Contender) -> float | None:
    """The rate of a window twice as long as usual: two of them are compared."""
    plan = run.plan
    seconds, patience = 2 * plan.window_seconds, 2 * plan.patience_seconds
    rate: float | None = contender.drain_for(plan.usual, seconds, patience)["rate"]
    return rate


def _until_handled(contender: Contender, count: int, seconds: float) -> float | None:
    began = time.monotonic()
    while (took := time.monotonic() - began) < seconds:
        if contender.worker.call("progress")["distinct"] >= count:
            return took
        time.sleep(0.05)
    return None


def burst(run: Run) -> None:
    """Half a million at once; how fast it goes in, and how fast the deep queue is worked off."""
    plan = run.plan
    if not plan.burst:
        return
    for contender in run.turns(1):

        def work(contender: Contender = contender) -> Row:
            return _burst(run, contender)

        run.measure(contender, "burst", 0, work, 3 * plan.limit_seconds)


def _burst(run: Run, contender: Contender) -> Row:
    plan = run.plan
    before = run.database.gauges()
    loaded = contender.load(plan.burst, seconds=plan.burst_load_seconds)
    between = run.database.gauges()
    mark = min(1000, max(1, loaded // 10))
    contender.start(plan.usual, expect=loaded, mark=mark)
    seen = contender.worker.call("wait", seconds=plan.burst_drain_seconds)
    ended_at = (contender.settled_at() if seen["done_at"] else None) or seen["now"]
    weight = run.database.weight(contender.relations)
    contender.stop()
    contender.producer.call("purge", timeout=300)
    row: dict[str, Any] = {
        "concurrency": plan.usual,
        "messages": loaded,
        "handled": seen["handled"],
        "doubled": seen["handled"] - seen["distinct"],
        "enqueue_rate": loaded / (between.at - before.at),
        "enqueue": between.since(before),
        **weight,
    }
    if seen["mark_at"] is not None and ended_at > seen["mark_at"]:
        row["rate"] = (seen["handled"] - mark) / (ended_at - seen["mark_at"])
    return row


def scheduled(run: Run) -> None:
    """The clean rate with a million scheduled messages of each peer."""
    plan = run.plan
    for contender in run.turns(0):
        if contender.name == OURS:
            _before_between_and_after(run, contender)
    _rounds(run, "unscheduled", plan.calm_rounds)
    loaded = [contender for contender in run.turns(0) if _schedule(run, contender, 0)]
    run.database.come_to_rest()
    for number in range(plan.scheduled_rounds):
        for contender in run.turns(number):
            if contender in loaded:
                _drain(run, contender, "scheduled", number, plan.usual, 0)
    for contender in loaded:
        run.measure(contender, "scheduled-purge", 0, lambda c=contender: _purge(c))
    _rounds(run, "unscheduled", plan.calm_rounds, first=plan.calm_rounds)


def _before_between_and_after(run: Run, contender: Contender) -> None:
    """Ours is compared with itself as well: windows that are closer together than all others'."""
    plan = run.plan
    rounds = 2 * plan.calm_rounds

    def calm(first: int) -> None:
        for number in range(first, first + rounds):
            _drain(run, contender, "pair-unscheduled", number, plan.usual, 0)

    calm(0)
    if _schedule(run, contender, 1):
        for number in range(2 * rounds):
            _drain(run, contender, "pair-scheduled", number, plan.usual, 0)
        run.measure(contender, "scheduled-purge", 1, lambda: _purge(contender))
    calm(rounds)


def _schedule(run: Run, contender: Contender, number: int) -> bool:
    plan = run.plan

    def load() -> Row:
        began = time.monotonic()
        loaded = contender.load(
            plan.scheduled, delay_seconds=FAR_AWAY_SECONDS, seconds=plan.scheduled_load_seconds
        )
        took = time.monotonic() - began
        run.database.vacuum(contender.relations)
        run.database.analyze(contender.relations)
        return {
            "messages": loaded,
            "enqueue_rate": loaded / took,
            **run.database.weight(contender.relations),
        }

    limit = plan.scheduled_load_seconds + plan.limit_seconds
    return not run.measure(contender, "scheduled-load", number, load, limit).get("error")


def _purge(contender: Contender) -> Row:
    contender.producer.call("purge", timeout=300)
    return {}


def mayhem(run: Run) -> None:
    """A worker killed, the database restarted, connections cut."""
    if not run.plan.chaos_seconds:
        return
    for what in chaos.ACTS:
        for contender in run.workers:

            def work(contender: Contender = contender, what: str = what) -> Row:
                return chaos.under(run, contender, what)

            run.measure(contender, what, 0, work, 2 * run.plan.limit_seconds)


def _rounds(run: Run, name: str, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        for contender in run.turns(number):
            _drain(run, contender, name, number, run.plan.usual, 0)


def _drain(
    run: Run, contender: Contender, name: str, number: int, concurrency: int, handler_ms: float
) -> None:
    seconds, patience = run.plan.window_seconds, run.plan.patience_seconds

    def work() -> Row:
        return contender.drain_for(concurrency, seconds, patience, handler_ms=handler_ms)

    run.measure(contender, name, number, work)


# What is claimed comes first: a run that is cut short has it.
SCENARIOS = {
    "clean": clean,
    "rate": rate,
    "held": held,
    "scheduled": scheduled,
    "chaos": mayhem,
    "burst": burst,
    "overload": overload,
    "readers": read,
}
