"""`bench tasks`: typed tasks and their results compared with plain handlers."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final
from uuid import UUID

from psycopg.conninfo import make_conninfo

from penstock import App, AsyncClient, Worker, batch
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
ALONE: Final = "bench-tasks-alone"
MEMBERS: Final = "bench-tasks-members"
AFTER: Final = "bench-tasks-after"
QUEUES: Final = dict.fromkeys((PLAIN, TYPED, KEPT, ALONE, MEMBERS, AFTER), HISTORY_OFF)
FULL_SECONDS: Final = 60.0
HEADINGS: Final = ("task", "plain handler", "plain / task")

_CONCURRENCY: Final = 64
_LATENCY_SHARE: Final = 0.2
_BATCH_SHARE: Final = 0.3
_IN_STATEMENT: Final = 1000
_FINISH_SECONDS: Final = 3600.0
_ROUND_SECONDS: Final = 1.0
# A worker handles about so many messages a second: it sizes the rounds.
_RATE: Final = 6_000
_TEXT: Final = "x" * 130
_METHOD: Final = (
    f"One process with a worker, {_CONCURRENCY} messages at once, handlers that do nothing, "
    "history and synchronous commit off. A round handles a backlog of as many messages of each "
    "kind, in turns: plain messages whose handler reads the payload; calls of a typed task with a "
    "UUID, an int and a text; the same with the result kept, and awaited in the same process by "
    f"{_CONCURRENCY} callers, each of which waits for one result at a time. "
    "Compared is the rate, by the clock. The CPU time of the process for a message, which other "
    "load on the machine hardly changes, is compared as `..._cpu_over_plain`. "
    "The latency is from the end of the task to the return of "
    "result(), one call at a time. A batch is compared by the rate: the time from its first "
    "enqueue until a task that follows it runs, with that of as many calls of the same task, "
    "enqueued 1,000 at a time, until all of them are settled."
)


@dataclass
class Measured:
    """Microseconds for a message of each kind, round by round; latencies in milliseconds."""

    # By the clock, and of the processor.
    time: dict[str, list[float]] = field(default_factory=lambda: {PLAIN: [], TYPED: [], KEPT: []})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {PLAIN: [], TYPED: [], KEPT: []})
    latency: list[float] = field(default_factory=list)
    # Microseconds for a call, enqueued and handled.
    alone: list[float] = field(default_factory=list)
    members: list[float] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    dsn = make_conninfo(place.dsn, options="-c synchronous_commit=off")
    return asyncio.run(_run(dsn, options.seconds or FULL_SECONDS, options.messages, progress))


async def _run(dsn: str, seconds: float, messages: int, progress: Progress) -> Findings:
    found = Measured()
    share = seconds * (1 - _LATENCY_SHARE - _BATCH_SHARE)
    rounds = max(2, round(share / (3 * _ROUND_SECONDS)))
    count = int(_RATE * min(_ROUND_SECONDS, share / (3 * rounds)))
    # Calls are enqueued within the time, too, and that takes about as long.
    pairs = 2 if messages else max(2, round(seconds * _BATCH_SHARE / (4 * _ROUND_SECONDS)))
    progress.plan(3 * rounds + pairs + 1)
    async with AsyncClient(dsn) as client:
        bench = _Bench(dsn, client, found)
        for number in range(rounds):
            for queue in (PLAIN, TYPED, KEPT) if number % 2 == 0 else (KEPT, TYPED, PLAIN):
                progress.say(queue)
                await bench.backlog(queue, max(200, count))
                progress.step()
        for number in range(pairs):
            progress.say("batches")
            sides = [bench.alone, bench.members]
            for side in sides if number % 2 == 0 else reversed(sides):
                await side(messages or max(200, count))
            progress.step()
        progress.say("latency of results")
        await bench.latency(seconds * _LATENCY_SHARE)
        await bench.app.close()
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
        make = self.app.task
        self._alone = make(queue=ALONE, name="alone", concurrency=_CONCURRENCY)(typed)
        self._member = make(queue=MEMBERS, name="member", concurrency=_CONCURRENCY)(typed)
        self._after = make(queue=AFTER)(self._finished)
        self._is_finished = asyncio.Event()

    async def backlog(self, queue: str, count: int) -> None:
        messages = [self._message(queue, number) for number in range(count)]
        enqueued = await self._client.enqueue_many(queue, messages)
        assert enqueued.first_id is not None
        assert enqueued.last_id is not None
        async with Worker(self.app, self._dsn, queues=[queue]) as worker:
            started, started_at = time.process_time(), time.perf_counter()
            if queue == KEPT:
                ids = iter(range(enqueued.first_id, enqueued.last_id + 1))
                await asyncio.gather(*(self._await_results(ids) for _ in range(_CONCURRENCY)))
            while worker.settled < count:  # noqa: ASYNC110 - the worker has no event for it
                await asyncio.sleep(0.005)
            used, took = time.process_time() - started, time.perf_counter() - started_at
        self._found.time[queue].append(took * 1e6 / count)
        self._found.cpu[queue].append(used * 1e6 / count)

    async def _await_results(self, ids: Iterator[int]) -> None:
        """One of the callers: it waits for one result after the other."""
        for id in ids:
            await self._kept.handle(id).result(120)

    def _message(self, queue: str, number: int) -> Any:
        if queue == PLAIN:
            return {"id": str(UUID(int=number)), "number": number, "text": _TEXT}
        task = self._typed if queue == TYPED else self._kept
        return task.message(UUID(int=number), number, _TEXT)

    async def alone(self, count: int) -> None:
        """Calls without a batch, from the first enqueue until all are settled."""
        async with Worker(self.app, self._dsn, queues=[ALONE, AFTER]) as worker:
            started = time.perf_counter()
            for first in range(0, count, _IN_STATEMENT):
                numbers = range(first, min(count, first + _IN_STATEMENT))
                calls = [self._alone.message(UUID(int=n), n, _TEXT) for n in numbers]
                await self._client.enqueue_many(ALONE, calls)
            while worker.settled < count:  # noqa: ASYNC110 - the worker has no event for it
                await asyncio.sleep(0.005)
            self._found.alone.append((time.perf_counter() - started) * 1e6 / count)

    async def members(self, count: int) -> None:
        """The same calls as a batch, until a task that follows it runs."""
        self._is_finished.clear()
        async with Worker(self.app, self._dsn, queues=[MEMBERS, AFTER]):
            started = time.perf_counter()
            calls = (self._member.s(UUID(int=n), n, _TEXT) for n in range(count))
            await batch(calls, on_success=self._after.s()).enqueue()
            await asyncio.wait_for(self._is_finished.wait(), _FINISH_SECONDS)
            self._found.members.append((time.perf_counter() - started) * 1e6 / count)

    async def _finished(self) -> None:
        self._is_finished.set()

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
    def over_plain(queue: str, of: dict[str, list[float]] = found.time) -> float | None:
        return Comparison(tuple(of[PLAIN]), tuple(of[queue])).ratio

    batched = Comparison(tuple(found.alone), tuple(found.members)).ratio
    p50, p99 = percentile(found.latency, 0.5), percentile(found.latency, 0.99)
    rows = []
    for unit, of in (("us", found.time), ("us CPU", found.cpu)):
        for name, queue in (("typed task", TYPED), ("result kept and awaited", KEPT)):
            rows.append(_row(name, of[queue], of[PLAIN], over_plain(queue, of), unit))
    rows += [
        _row("batch", found.members, found.alone, batched, "us"),
        Row(
            f"result(), p50 and p99 of {len(found.latency)}",
            f"{ratio_text(p50)}, {ratio_text(p99)} ms",
            "",
        ),
    ]
    figures = {
        "typed_over_plain": over_plain(TYPED),
        "results_over_plain": over_plain(KEPT),
        "typed_cpu_over_plain": over_plain(TYPED, found.cpu),
        "results_cpu_over_plain": over_plain(KEPT, found.cpu),
        "result_latency_p50_ms": p50,
        "result_latency_p99_ms": p99,
        "batch_over_unbatched": batched,
    }
    samples = {
        "cpu_us": found.cpu,
        "time_us": found.time,
        "latency_ms": found.latency,
        "us": {"alone": found.alone, "members": found.members},
    }
    return Findings(_METHOD, figures, rows, [], samples, HEADINGS)


def _row(
    name: str, task: Sequence[float], plain: Sequence[float], ratio: float | None, unit: str
) -> Row:
    return Row(name, f"{median(task):.0f} {unit}", f"{median(plain):.0f} {unit}", ratio_text(ratio))
