"""`bench limits`: how close workers come to the throughput limit of a queue."""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Final

from penstock_benchmarks import wire
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, ratio_text
from penstock_benchmarks.scratch import HISTORY_ON, Scratch
from penstock_benchmarks.session import System
from penstock_benchmarks.statements import statement
from penstock_benchmarks.worker_process import Serve, Subject, subject

QUEUE: Final = "bench-limits"
QUEUES: Final = {QUEUE: HISTORY_ON}
LIMITS: Final = (1, 2, 5, 10, 100, 1000)
WORKERS: Final = (1, 4)
FULL_SECONDS: Final = 480.0
# Below this, only the ends of the table are measured.
SHORT_SECONDS: Final = 24.0
SHORT_LIMITS: Final = (1, 1000)

_CONCURRENCY = 10
_LOAD_COUNT = 10_000
# The bucket is full at first: its tokens are spent after this time.
_BURST_SECONDS = 2.0
_METHOD = (
    "One or four worker processes, {concurrency} messages at once, handlers that do nothing, and "
    "more messages than they may claim. Claims of the first {burst:g} seconds are left out, since "
    "the bucket is full at first. The rate is the number of messages claimed after the first claim "
    "that counts, divided by the time from that claim to the last one, by the server's clock."
)


@dataclass(frozen=True)
class Case:
    """One limit, served by so many workers: messages claimed, and in how many seconds."""

    limit: int
    workers: int
    messages: int
    seconds: float

    @property
    def over_limit(self) -> float | None:
        return self.messages / self.seconds / self.limit if self.seconds else None


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    seconds = options.seconds or FULL_SECONDS
    limits = LIMITS if seconds >= SHORT_SECONDS else SHORT_LIMITS
    window = seconds / (len(limits) * len(WORKERS))
    progress.plan(len(limits) * len(WORKERS))
    cases = []
    with ExitStack() as stack:
        processes = [stack.enter_context(subject(place.dsn)) for _ in range(max(WORKERS))]
        for workers in WORKERS:
            for limit in limits:
                progress.say(f"{limit} a second, {workers} workers")
                cases.append(_case(place, processes[:workers], limit, window))
                progress.step()
    return _findings(cases)


def _case(place: Scratch, processes: list[Subject], limit: int, window: float) -> Case:
    place.run("limits.set", queue=QUEUE, limit=limit)
    payload = wire.json_payload(PAYLOAD_BYTES).decode()
    wanted = int(limit * (window + _BURST_SECONDS + 10)) + 10
    for done in range(0, wanted, _LOAD_COUNT):
        count = min(_LOAD_COUNT, wanted - done)
        place.run("penstock.load_ready", queue=QUEUE, payload=payload, count=count)
    with ExitStack() as stack:
        for process in processes:
            stack.enter_context(process.doing(Serve((QUEUE,), _CONCURRENCY)))
        began = place.run("limits.now")
        time.sleep(_BURST_SECONDS + window)
    found = place.connection.execute(
        statement("limits.claimed"),
        {"queue": QUEUE, "after": began, "burst": _BURST_SECONDS},
    ).fetchone()
    assert found is not None
    place.purge(System.PENSTOCK, QUEUE)
    return Case(limit, len(processes), *found)


def _findings(cases: list[Case]) -> Findings:
    figures: Figures = {
        f"limit_{case.limit}_workers_{case.workers}": case.over_limit for case in cases
    }
    rows = [
        Row(
            f"{case.workers} {'worker' if case.workers == 1 else 'workers'}",
            f"{(case.over_limit or 0) * case.limit:,.2f}/s",
            f"{case.limit:,}/s",
            ratio_text(case.over_limit),
        )
        for case in cases
    ]
    return Findings(
        _METHOD.format(concurrency=_CONCURRENCY, burst=_BURST_SECONDS),
        figures,
        rows,
        samples={"cases": [asdict(case) for case in cases]},
        headings=("measured", "limit", "measured / limit"),
    )
