"""Faults under a steady rate of messages, and a record of which peer received which message."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from penstock_benchmarks.peers.contender import Contender
from penstock_benchmarks.peers.recorder import read_ledger
from penstock_benchmarks.peers.run import Row, Run

RATE = 200
CONCURRENCY = 16
HANDLER_MS = 20
RESCUE_SECONDS = 5
# The parts of the run that are compared: before anything happens, and at the end.
CALM = 0.25


def under(run: Run, contender: Contender, what: str) -> Row:
    """Enqueue for a while, let it happen, and wait for every message that is known to be in."""
    seconds = run.plan.chaos_seconds
    file, ledger = tempfile.mkstemp(prefix="penstock-peers-ledger-")
    os.close(file)
    try:
        _work(contender, ledger)
        time.sleep(0.5)
        first = contender.take_numbers(round(RATE * seconds))
        began = time.monotonic()
        pacing = contender.producer.begin("pace", first=first, rate=RATE, seconds=seconds)
        time.sleep(seconds * CALM)
        happened_at = time.monotonic()
        ACTS[what](run, contender, ledger, began + seconds * (1 - CALM))
        pace = pacing.result(timeout=seconds + 120)
        paced_at = time.monotonic()
        confirmed = set(range(first, first + pace["count"])) - set(pace["unsure"])
        seen = _wait_for(ledger, confirmed, run.plan.chaos_wait_seconds)
        row = _row(seen, confirmed, began, began + seconds, seconds * CALM)
        return row | {
            "messages": pace["count"],
            "unsure": len(pace["unsure"]),
            "silence_seconds": _silence(seen, happened_at),
            "last_after_seconds": max((at for _, at in seen), default=began) - paced_at,
        }
    finally:
        contender.reopen()
        contender.producer.call("purge")
        os.unlink(ledger)


def _work(contender: Contender, ledger: str) -> None:
    contender.start(
        CONCURRENCY, handler_ms=HANDLER_MS, ledger=ledger, rescue_seconds=RESCUE_SECONDS
    )


def _kill(run: Run, contender: Contender, ledger: str, until: float) -> None:
    """The worker process, with what it holds; another one takes its place."""
    contender.worker.kill()
    contender.replace_worker()
    _work(contender, ledger)


def _restart(run: Run, contender: Contender, ledger: str, until: float) -> None:
    run.database.restart()


def _terminate(run: Run, contender: Contender, ledger: str, until: float) -> None:
    """A connection every 100 ms, whosever it is."""
    while time.monotonic() < until:
        run.database.terminate_one()
        time.sleep(0.1)


ACTS: dict[str, Callable[[Run, Contender, str, float], None]] = {
    "kill": _kill,
    "restart": _restart,
    "terminate": _terminate,
}


def _wait_for(ledger: str, confirmed: set[int], seconds: float) -> list[tuple[int, float]]:
    until = time.monotonic() + seconds
    while True:
        seen = read_ledger(ledger)
        if confirmed <= {number for number, _ in seen} or time.monotonic() > until:
            return seen
        time.sleep(0.2)


def _silence(seen: list[tuple[int, float]], since: float) -> float | None:
    """The longest time without a completion, from when it happened."""
    times = [since, *sorted(at for _, at in seen if at > since)]
    return max((later - at for at, later in pairwise(times)), default=None)


def _row(
    seen: list[tuple[int, float]], confirmed: set[int], began: float, ended: float, calm: float
) -> Row:
    times = Counter(number for number, _ in seen)
    # Not the very first messages: the worker has just begun.
    before = sum(began + calm / 4 <= at < began + calm for _, at in seen)
    after = sum(ended - calm * 3 / 4 <= at < ended for _, at in seen)
    return {
        "concurrency": CONCURRENCY,
        "handler_ms": HANDLER_MS,
        "handled": len(seen),
        "lost": len(confirmed - times.keys()),
        "doubled": sum(count - 1 for count in times.values()),
        "recovery": after / before if before else None,
    }
