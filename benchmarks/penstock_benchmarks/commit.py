"""`bench commit`: delivery after the commit, and what reads, new sessions and limits cost."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import psycopg

from penstock_benchmarks import commit_costs, commit_delivery, commit_rates
from penstock_benchmarks.command import COMMIT_FIGURES as FIGURES
from penstock_benchmarks.commit_found import PGMQ_QUEUE, QUEUES, Bench, Found
from penstock_benchmarks.contracts import pgmq_schema
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings
from penstock_benchmarks.scratch import Scratch

__all__ = ["QUEUES", "run"]

RESCANS = "rescans_that_found"
# The seconds of each part in the full form, and the figures that come out of it.
PARTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "txn_50ms": (
        80.0,
        ("txn_50ms_p50_ms", "txn_50ms_p99_ms", "drain_p50_ms", "drain_p99_ms"),
    ),
    "txn_300ms": (60.0, ("txn_300ms_p50_ms", "txn_300ms_p99_ms")),
    "txn_5s": (120.0, ("txn_5s_p50_ms", "txn_5s_p99_ms")),
    "slow_commit": (90.0, ("slow_commit_p99_over_plain",)),
    "sql_loop": (180.0, ("sql_loop_p99_over_plain", "long_poll_p99_over_plain")),
    "cold": (
        30.0,
        (
            *("cold_enqueue_over_pgmq", "cold_claim_over_pgmq", "cold_ack_over_pgmq"),
            "session_memory_mb",
        ),
    ),
    "crowd": (60.0, ("crowd_64_over_pgmq",)),
    "limits": (60.0, ("depth_limit_over_free", "group_over_free")),
    "deadlocks": (60.0, ("deadlocks",)),
    # Last, since it leaves a million messages behind.
    "reads": (60.0, ("metrics_over_pgmq", "count_over_pgmq", "stats_over_plain")),
}
# What `--long` adds or extends.
LONG_PARTS = {
    "txn_60s": (540.0, ("txn_60s_p50_ms", "txn_60s_p99_ms")),
    "deadlocks": (300.0, ("deadlocks",)),
}
# The parts in which a rescan should find nothing.
_RESCANNED = ("txn_50ms", "txn_300ms", "txn_5s", "txn_60s", "slow_commit", "sql_loop")
_FULL_SECONDS = sum(seconds for seconds, _ in PARTS.values())
# Shorter than this, nothing is loaded a million times.
_SHORT_SECONDS = 300.0
_METHOD = (
    "Pairs of times are p50 / p99. "
    "txn_*: from the return of COMMIT to the start of the handler, of messages enqueued by four "
    "producers in transactions that stay open so long, with 0, 200 and 2,000 messages a second "
    "in autocommit; one worker with wake-ups and 16 handlers at once. The figure is the worst of "
    "the three. drain_*: transactions of 50 ms while a worker always has 100 to 200 messages "
    "waiting. Loops: consumers that claim up to 10 messages, ack them, and pause 5 ms after an "
    "empty claim; p99 over p99 of all windows of the run, which alternate. slow_commit: 100 "
    "messages a second in autocommit by sessions with commit_delay, 4 consumers. sql_loop: "
    "transactions of 50 ms with 200 messages a second, and long polls over HTTP, next to the "
    "same loop on PGMQ's shape. Reads and first calls: median of the "
    "ratios of neighbouring calls. crowd: messages read and archived a second by 64 connections. "
    "Limits: transactions a second of 16 producers that enqueue one message each and hold their "
    "transaction for 50 ms. Payloads of 200 bytes, history off; synchronous commit as the server "
    "has it."
)
HEADINGS = ("Penstock", "PGMQ's shape", "Penstock / it")


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    parts = chosen_parts(options)
    found = Found()
    before = _rescans(place)
    with ExitStack() as stack:
        stack.enter_context(pgmq_schema(place, PGMQ_QUEUE))
        bench = Bench(place, options, progress, found, stack)
        progress.plan(len(parts))
        for name, seconds in parts.items():
            _part(bench, name, seconds)()
            progress.step()
    after = _rescans(place)
    if before is None or after is None:
        found.notes.append(f"{RESCANS} was not measured: this schema has no such function")
    found.figures[RESCANS] = None if before is None or after is None else float(after - before)
    names = options.only or [*FIGURES, *found.figures]
    figures = {name: found.figures.get(name) for name in dict.fromkeys(names)}
    return Findings(_METHOD, figures, found.rows, found.notes, dict(found.samples), HEADINGS)


def chosen_parts(options: Options) -> dict[str, float]:
    """The parts to run, and how long each takes."""
    only = set(options.only)
    parts = (
        {**LONG_PARTS, **PARTS, **LONG_PARTS} if options.long or "txn_60s_p99_ms" in only else PARTS
    )
    chosen = {
        name: seconds
        for name, (seconds, figures) in parts.items()
        if not only or only & set(figures) or (RESCANS in only and name in _RESCANNED)
    }
    stretch = options.seconds / sum(chosen.values()) if options.seconds and chosen else 1.0
    return {name: seconds * stretch for name, seconds in chosen.items()}


def _part(bench: Bench, name: str, seconds: float) -> Callable[[], None]:
    short = bench.options.seconds is not None and bench.options.seconds < _SHORT_SECONDS
    transactions = partial(commit_delivery.transactions, bench, name)
    parts: dict[str, Callable[[], None]] = {
        "txn_50ms": partial(transactions, 0.05, True, seconds),
        "txn_300ms": partial(transactions, 0.3, False, seconds),
        "txn_5s": partial(transactions, 5.0, False, seconds),
        "txn_60s": partial(transactions, 60.0, False, seconds),
        "slow_commit": partial(commit_delivery.slow_commits, bench, seconds),
        "sql_loop": partial(commit_delivery.sql_loops, bench, seconds),
        "reads": partial(commit_costs.reads, bench, seconds, short),
        "cold": partial(commit_costs.cold, bench, seconds, short),
        "crowd": partial(commit_rates.crowd, bench, seconds),
        "limits": partial(commit_rates.limits, bench, seconds),
        "deadlocks": partial(commit_rates.deadlocks, bench, seconds),
    }
    return parts[name]


def _rescans(place: Scratch) -> int | None:
    try:
        found = place.run("commit.rescans")
    except psycopg.errors.UndefinedFunction:
        return None
    return int(found)
