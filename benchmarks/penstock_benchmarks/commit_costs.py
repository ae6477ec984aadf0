"""The cost of reads and of new sessions, compared with PGMQ's shape of table."""

import re
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from penstock_benchmarks import wire
from penstock_benchmarks.commit_found import COLD_CLAIM, COLD_EMPTY, PGMQ_QUEUE, QUEUE, Bench
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.contract_findings import Side
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.report import Row, ratio_text
from penstock_benchmarks.session import System
from penstock_benchmarks.statements import statement

DEPTHS = (0, 10, 10_000, 1_000_000)
# (figure, statement, ours, theirs, the queue)
READS: tuple[tuple[str, str, StrEnum, StrEnum, str], ...] = (
    ("metrics_over_pgmq", "metrics", Side.PGMQ, Side.STANDIN, PGMQ_QUEUE),
    ("count_over_pgmq", "count", Side.PGMQ, Side.STANDIN, PGMQ_QUEUE),
    ("stats_over_plain", "stats", System.PENSTOCK, System.PLAIN, QUEUE),
)
COLD_SIDES: tuple[StrEnum, ...] = (System.PENSTOCK, Side.PGMQ, Side.STANDIN)
# The queue of each call. Both kinds of claim have their own, so that neither finds the work that
# claims do at intervals already done by the other.
COLD_CALLS = {"enqueue": QUEUE, "claim": COLD_CLAIM, "empty claim": COLD_EMPTY, "ack": QUEUE}

_LOAD_COUNT = 10_000
# The first calls of a session make its plans.
_UNCOUNTED = 2
_FEWEST_READS = 3
_FEWEST_SESSIONS = 30
_SHORT_SESSIONS = 3
_MEMORY_SESSIONS = 5
# The work that claims do at intervals is due again after this, as it is for a claim of a cron job.
_REST_SECONDS = 1.1


def reads(bench: Bench, seconds: float, short: bool) -> None:
    """Each query at each depth, by one session of each side that has set nothing."""
    depths = DEPTHS[:-1] if short else DEPTHS
    if short:
        bench.found.notes.append(f"reads were not measured at {DEPTHS[-1]:,} messages")
    worst: dict[str, float] = {}
    part = seconds / len(depths) / len(READS)
    loaded = 0
    for depth in depths:
        bench.progress.say(f"loading {depth:,} messages")
        _load(bench, depth - loaded)
        loaded = depth
        for figure, call, ours, theirs, queue in READS:
            bench.progress.say(f"{call} at {depth:,} messages")
            times = _read(bench, f"{call} at {depth:,}", (ours, theirs), call, queue, part)
            ratio = Comparison(*(tuple(each) for each in times)).ratio
            ours_text, theirs_text = (_milliseconds(each) for each in times)
            bench.found.rows.append(
                Row(f"{call} at {depth:,}", ours_text, theirs_text, ratio_text(ratio))
            )
            worst[figure] = max(worst.get(figure, 0.0), ratio or 0.0)
    bench.found.figures.update(worst)


def _loaded_queues() -> list[tuple[StrEnum, str]]:
    return [
        (Side.PGMQ, PGMQ_QUEUE),
        (Side.STANDIN, PGMQ_QUEUE),
        (System.PENSTOCK, QUEUE),
        (System.PLAIN, QUEUE),
    ]


def _load(bench: Bench, messages: int) -> None:
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    for side, queue in _loaded_queues():
        for done in range(0, messages, _LOAD_COUNT):
            count = min(_LOAD_COUNT, messages - done)
            bench.place.run(f"{side}.load_ready", queue=queue, payload=payload, count=count)
        # Fresh statistics and a visibility map: the table at its best.
        bench.place.run(f"{side}.tidy")


def _read(
    bench: Bench, what: str, sides: Sequence[StrEnum], call: str, queue: str, seconds: float
) -> list[list[float]]:
    """The times of both sides, in turns."""
    times: list[list[float]] = [[], []]
    queries = [statement(f"{side}.{call}").encode() for side in sides]
    with (
        psycopg.connect(bench.place.dsn, autocommit=True) as left,
        psycopg.connect(bench.place.dsn, autocommit=True) as right,
    ):
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(times[1]) < _UNCOUNTED + _FEWEST_READS:
            turn = ((0, left), (1, right)) if len(times[0]) % 2 == 0 else ((1, right), (0, left))
            for place, connection in turn:
                begun = time.perf_counter()
                connection.execute(queries[place], {"queue": queue}).fetchall()
                times[place].append(time.perf_counter() - begun)
    counted = [each[_UNCOUNTED:] for each in times]
    for side, each in zip(sides, counted, strict=True):
        bench.found.sample("reads", what=what, side=side, **_summary(each))
    return counted


def cold(bench: Bench, seconds: float, short: bool) -> None:
    """The first statement of a new session; connecting is not timed."""
    fewest = _SHORT_SESSIONS if short else _FEWEST_SESSIONS
    times: dict[str, dict[StrEnum, list[float]]] = {
        call: {side: [] for side in COLD_SIDES} for call in COLD_CALLS
    }
    bench.progress.say("new sessions")
    until, rounds = time.monotonic() + seconds * 0.9, 0
    while rounds < fewest or time.monotonic() < until:
        time.sleep(_REST_SECONDS)
        for call, found in times.items():
            for side in COLD_SIDES if rounds % 2 == 0 else reversed(COLD_SIDES):
                found[side].append(_first_call(bench, side, call))
        rounds += 1
    ratios: dict[tuple[StrEnum, str], float | None] = {}
    for call, found in times.items():
        theirs = found[Side.STANDIN]
        for side, name in ((System.PENSTOCK, "penstock"), (Side.PGMQ, "pgmq")):
            ratio = Comparison(tuple(found[side]), tuple(theirs)).ratio
            ratios[side, call] = ratio
            texts = (_milliseconds(found[side]), _milliseconds(theirs), ratio_text(ratio))
            bench.found.rows.append(Row(f"first {call}, {name}", *texts))
        for side, each in found.items():
            bench.found.sample("cold", what=call, side=side, **_summary(each))
    ours = {call: ratios[System.PENSTOCK, call] or 0.0 for call in COLD_CALLS}
    bench.found.figures["cold_enqueue_over_pgmq"] = ours["enqueue"]
    bench.found.figures["cold_claim_over_pgmq"] = max(ours["claim"], ours["empty claim"])
    bench.found.figures["cold_ack_over_pgmq"] = ours["ack"]
    _memory(bench, 1 if short else _MEMORY_SESSIONS)


def _first_call(bench: Bench, side: StrEnum, call: str) -> float:
    """Seconds of one call in a new session. The queue is empty before and after."""
    scratch = _Caller(bench.place.connection, side, COLD_CALLS[call])
    if call in ("claim", "ack"):
        scratch.enqueue()
    claimed = scratch.claim() if call == "ack" else None
    with psycopg.connect(bench.place.dsn, autocommit=True) as connection:
        caller = _Caller(connection, side, COLD_CALLS[call])
        begun = time.perf_counter()
        if call == "enqueue":
            caller.enqueue()
        elif call == "ack":
            caller.ack(claimed)
        else:
            claimed = caller.claim()
        elapsed = time.perf_counter() - begun
    if call == "enqueue":
        claimed = scratch.claim()
    if call in ("enqueue", "claim"):
        scratch.ack(claimed)
    return elapsed


class _Caller:
    """The timed calls on a connection of psycopg, which has nothing prepared."""

    def __init__(self, connection: psycopg.Connection[Any], side: StrEnum, queue: str) -> None:
        self._connection = connection
        self._side = side
        self._queue = queue

    def enqueue(self) -> None:
        self._call("enqueue", [self._queue, wire.json_payload(PAYLOAD_BYTES).decode()])

    def claim(self) -> Any:
        return self._call("claim", [self._queue, 1, self._queue])

    def ack(self, claimed: Any) -> None:
        # Penstock's proof is the token, PGMQ's the name of the queue.
        if claimed is not None:
            proof = claimed[1] if self._side is System.PENSTOCK else self._queue
            self._call("ack", [claimed[0], proof])

    def _call(self, call: str, parameters: list[Any]) -> Any:
        cursor = psycopg.RawCursor(self._connection)
        query = statement(f"{self._side}.{call}").encode()
        return cursor.execute(query, parameters, prepare=False).fetchone()


def _memory(bench: Bench, rounds: int) -> None:
    """Private memory of a session after enqueue, claim and ack, less that of an idle one."""
    found: dict[StrEnum, list[float]] = {side: [] for side in COLD_SIDES}
    polled: dict[StrEnum, list[float]] = {side: [] for side in COLD_SIDES}
    try:
        for _ in range(rounds):
            time.sleep(_REST_SECONDS)
            for side in COLD_SIDES:
                settled, empty = _session_bytes(bench, side)
                found[side].append(settled / 2**20)
                polled[side].append(empty / 2**20)
    except (OSError, ValueError):
        bench.found.notes.append(
            "session_memory_mb was not measured: the server's processes cannot be read from here"
        )
        bench.found.figures["session_memory_mb"] = None
        return
    bench.found.figures["session_memory_mb"] = median(found[System.PENSTOCK])
    for what, values in (("after an ack", found), ("after an empty claim", polled)):
        ours, theirs = median(values[System.PENSTOCK]), median(values[Side.STANDIN])
        ratio = ratio_text(ours / theirs if theirs else None)
        texts = (f"{ours:.1f} MB", f"{theirs:.1f} MB", ratio)
        bench.found.rows.append(Row(f"session's memory {what}", *texts))
        for side, each in values.items():
            rounded = [round(value, 3) for value in each]
            bench.found.sample("session_memory_mb", what=what, side=side, values=rounded)


def _session_bytes(bench: Bench, side: StrEnum) -> tuple[int, int]:
    """After enqueue, claim and ack, and after an empty claim as well."""
    with (
        psycopg.connect(bench.place.dsn, autocommit=True) as idle,
        psycopg.connect(bench.place.dsn, autocommit=True) as connection,
    ):
        caller = _Caller(connection, side, COLD_CLAIM if side is System.PENSTOCK else COLD_EMPTY)
        caller.enqueue()
        caller.ack(caller.claim())
        settled = _private_bytes(connection)
        caller.claim()
        least = _private_bytes(idle)
        return settled - least, _private_bytes(connection) - least


def _private_bytes(connection: psycopg.Connection[Any]) -> int:
    process = Path("/proc") / str(connection.info.backend_pid)
    # The same number may belong to another process here if the server is somewhere else.
    if "postgres" not in (process / "comm").read_text("utf-8"):
        raise ValueError("not a process of PostgreSQL")
    return sum(_private_kilobytes((process / "smaps_rollup").read_text("utf-8"))) * 1024


def _private_kilobytes(rollup: str) -> Iterator[int]:
    for size in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB$", rollup, re.MULTILINE):
        yield int(size)


def _milliseconds(times: Sequence[float]) -> str:
    return f"{median(times) * 1000:,.2f} ms" if times else "not measured"


def _summary(times: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "count": len(times),
        "median_ms": round(median(times) * 1000, 4),
        "least_ms": round(ordered[0] * 1000, 4),
        "most_ms": round(ordered[-1] * 1000, 4),
    }
