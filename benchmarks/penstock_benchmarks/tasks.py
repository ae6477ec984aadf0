"""`bench tasks`: typed tasks and their results compared with plain handlers."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final
from uuid import UUID

from psycopg.conninfo import make_conninfo

from penstock import App, AsyncClient, Worker
from penstock.worker import Delivery
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings, Row, ratio_text
from penstock_benchmarks.scratch import HISTORY_OFF, Scratch
from penstock_benchmarks.worker import percentile

PLAIN: Final = "bench-tasks-plain"
TYPED: Final = "bench-tasks-typed"
KEPT: Final = "bench-tasks-kept"
QUEUES: Final = dict.fromkeys((PLAIN, TYPED, KEPT), HISTORY_OFF)
FULL_SECONDS: Final = 60.0
HEADINGS: Final = ("task", "plain handler", "plain / task")

_CONCURRENCY: Final = 64
_LATENCY_SHARE: Final = 0.2
# CPU microseconds of the process for a message are about this: it sizes the rounds.
_ROUND_SECONDS: Final = 1.0
_RATE: Final = 6_000
_TEXT: Final = "x" * 130
_METHOD: Final = (
    f"One process with a worker, {_CONCURRENCY} messages at once, handlers that do nothing, "
    "history and synchronous commit off. A round handles a backlog of as many messages of each "
    "kind, in turns: plain messages whose handler reads the payload; calls of a typed task with a "
    "UUID, an int and a text; the same with the result kept, and awaited in the same process. "
    "Compared is the CPU time of the process for a message, which other load on the machine hardly "
    "changes, and not the rate. The latency is from the end of the task to the return of "
    "result(), one call at a time."
)


@dataclass
class Measured:
    """CPU microseconds for a message of each kind, round by round; latencies in milliseconds."""

    cpu: dict[str, list[float]] = field(default_factory=lambda: {PLAIN: [], TYPED: [], KEPT: []})
    latency: list[float] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    dsn = make_conninfo(place.dsn, options="-c synchronous_commit=off")
    return asyncio.run(_run(dsn, options.seconds or FULL_SECONDS, progress))


async def _run(dsn: str, seconds: float, progress: Progress) -> Findings:
    found = Measured()
    rounds = max(2, round(seconds * (1 - _LATENCY_SHARE) / (3 * _ROUND_SECONDS)))
    count = int(_RATE * min(_ROUND_SECONDS, seconds * (1 - _LATENCY_SHARE) / (3 * rounds)))
    progress.plan(3 * rounds + 1)
    async with AsyncClient(dsn) as client:
        bench = _Bench(dsn, client, found)
        for number in range(rounds):
            for queue in (PLAIN, TYPED, KEPT) if number % 2 == 0 else (KEPT, TYPED, PLAIN):
                progress.say(queue)
                await bench.backlog(queue, max(200, count))
                progress.step()
        progress.say("latency of results")
        await bench.latency(seconds * _LATENCY_SHARE)
        progress.step()
    return _findings(found)


class _Bench:
    def __init__(self, dsn: str, client: AsyncClient, found: Measured) -> None:
        self._dsn = dsn
        self._client = client
        self._found = found
        self.app = App(dsn)
        self.app.handler(PLAIN, concurrency=_CONCURRENCY)(_plain)
        self._typed = self.app.task(queue=TYPED, concurrency=_CONCURRENCY)(typed)
        self._kept = self.app.task(queue=KEPT, concurrency=_CONCURRENCY, keep_result=600)(kept)

    async def backlog(self, queue: str, count: int) -> None:
        messages = [self._message(queue, number) for number in range(count)]
        enqueued = await self._client.enqueue_many(queue, messages)
        assert enqueued.first_id is not None
        assert enqueued.last_id is not None
        worker = Worker(self.app, self._dsn, queues=[queue])
        started = time.process_time()
        async with worker:
            if queue == KEPT:
                ids = range(enqueued.first_id, enqueued.last_id + 1)
                await asyncio.gather(*(self._kept.handle(id).result(120) for id in ids))
            while worker.settled < count:  # noqa: ASYNC110 - the worker has no event for it
                await asyncio.sleep(0.005)
            used = time.process_time() - started
        await self.app.close()
        self._found.cpu[queue].append(used * 1e6 / count)

    def _message(self, queue: str, number: int) -> Any:
        if queue == PLAIN:
            return {"id": str(UUID(int=number)), "number": number, "text": _TEXT}
        task = self._typed if queue == TYPED else self._kept
        return task.message(UUID(int=number), number, _TEXT)

    async def latency(self, seconds: float) -> None:
        app = App(self._dsn)
        ended: list[float] = []

        @app.task(queue=KEPT, keep_result=600)
        async def answer(number: int) -> int:
            ended.append(time.perf_counter())
            return number

        async with Worker(app, self._dsn):
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at or len(self._found.latency) < 10:
                handle = await answer.enqueue(1)
                await handle.result(60)
                self._found.latency.append((time.perf_counter() - ended[-1]) * 1000)
        await app.close()


async def _plain(message: Delivery) -> None:
    # Even a handler that does nothing has looked at its message.
    assert message.payload is not None


async def typed(id: UUID, number: int, text: str) -> None:
    assert text


async def kept(id: UUID, number: int, text: str) -> int:
    return number


def _findings(found: Measured) -> Findings:
    def over_plain(queue: str) -> float | None:
        return Comparison(tuple(found.cpu[PLAIN]), tuple(found.cpu[queue])).ratio

    p50, p99 = percentile(found.latency, 0.5), percentile(found.latency, 0.99)
    rows = [
        _row("typed task", found.cpu[TYPED], found.cpu[PLAIN], over_plain(TYPED)),
        _row("result kept and awaited", found.cpu[KEPT], found.cpu[PLAIN], over_plain(KEPT)),
        Row(
            f"result(), p50 and p99 of {len(found.latency)}",
            f"{ratio_text(p50)}, {ratio_text(p99)} ms",
            "",
        ),
    ]
    figures = {
        "typed_over_plain": over_plain(TYPED),
        "results_over_plain": over_plain(KEPT),
        "result_latency_p50_ms": p50,
        "result_latency_p99_ms": p99,
    }
    samples = {"cpu_us": found.cpu, "latency_ms": found.latency}
    return Findings(_METHOD, figures, rows, [], samples, HEADINGS)


def _row(name: str, task: Sequence[float], plain: Sequence[float], ratio: float | None) -> Row:
    text: Callable[[float], str] = "{:.0f} us CPU".format
    return Row(name, text(median(task)), text(median(plain)), ratio_text(ratio))
