"""`bench http`: the server compared with a static response of its framework, and with SQL."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from penstock.client.async_client import AsyncClient
from penstock.server.auth.api_keys import new_key
from penstock_benchmarks import wire
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.driver import PAYLOAD_BYTES
from penstock_benchmarks.http_load import (
    LoadConnection,
    Step,
    Traffic,
    connect,
    dequeue_request,
    enqueue_step,
    run_window,
    settle_request,
)
from penstock_benchmarks.http_servers import penstock_server, static_server
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Figures, Findings, Row, rate_text, ratio_text
from penstock_benchmarks.scratch import Scratch
from penstock_benchmarks.session import System
from penstock_benchmarks.worker import percentile

QUEUE = "bench-http"
SQL_QUEUE = "bench-http-sql"
POLLED = "bench-http-polled"
FULL_SECONDS = 120.0
HEADINGS = ("Penstock", "compared with", "Penstock / it")
_KEY = "bench-http"
_WINDOW_SECONDS = 2.0
_POLL_EVERY = 0.02
_IDLE_WINDOWS = 5
_METHOD = (
    "One server process, started as `penstock up` starts it, with its log; keep-alive connections "
    "of one load process. Batch 1: requests of a 200-byte JSON payload, compared with Starlette on "
    "the same uvicorn that reads the same bodies and answers a fixed JSON of the same size, in "
    "windows A B B A. dequeue_ack counts pairs of requests on both sides. Batch 100: enqueue, "
    "dequeue and settle, compared with AsyncClient over SQL with as many connections. "
    "Long polls: from just before an enqueue by SQL to the answer at the one consumer that gets "
    "it. Idle: transactions a second in the whole database while all consumers wait, the median "
    "of five windows."
)


@dataclass
class Measured:
    rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    polls: list[float] = field(default_factory=list)
    idle: float | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    import uvloop

    total = options.seconds or FULL_SECONDS
    found = Measured()
    with api_key(place) as key, penstock_server(place.dsn) as url, static_server() as static:
        bench = _Bench(place, options, progress, found, url, static, key)
        uvloop.run(bench.measure(total))
    return _findings(found, options.consumers)


@contextmanager
def api_key(place: Scratch) -> Iterator[str]:
    """A key for the time of the run."""
    remove = "delete from penstock.api_key where name = %s"
    place.connection.execute(remove, [_KEY])
    made = new_key(_KEY, ["enqueue:bench-*", "consume", "read"])
    place.connection.execute(made.command.sql.encode(), made.command.params)
    try:
        yield made.token
    finally:
        place.connection.execute(remove, [_KEY])


@dataclass
class _Bench:
    place: Scratch
    options: Options
    progress: Progress
    found: Measured
    url: str
    static: str
    key: str

    async def measure(self, total: float) -> None:
        rounds = max(2, round(total * 0.6 / 3 / (2 * _WINDOW_SECONDS) / 2) * 2)
        window = total * 0.6 / 3 / (2 * rounds)
        self.progress.plan(3 * rounds + 2)
        # First, while the database is at rest: what vacuum does after a load is counted with ours.
        await self._long_polls(total * 0.2, total * 0.2)
        await self._compare("enqueue 1", rounds, window, self._enqueue(1), self._static_enqueue())
        await self._compare("dequeue and ack 1", rounds, window, self._drain_step(),
                            self._static_drain(), load=True)  # fmt: skip
        async with AsyncClient(self.place.dsn, max_size=self.options.clients) as client:
            await self._compare("batch 100", rounds, window, self._cycle(100),
                                self._sql_cycle(client, 100))  # fmt: skip

    async def _compare(
        self, name: str, rounds: int, window: float, ours: Step, theirs: Step, load: bool = False
    ) -> None:
        pairs = self.found.rates.setdefault(name, [])
        here = [await connect(self.url, self.key) for _ in range(self.options.clients)]
        there = [await connect(self.static, self.key) for _ in range(self.options.clients)]
        for number in range(rounds):
            self.progress.say(name)
            measured: dict[str, Traffic] = {}
            for which in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                if which == "ours" and load:
                    await self._load(here, pairs, window)
                lines, step = (here, ours) if which == "ours" else (there, theirs)
                measured[which] = await run_window(lines, step, window)
                self.found.samples.append(
                    {"what": name, "side": which, "rate": measured[which].rate, "seconds": window}
                )
            pairs.append((measured["ours"].rate, measured["theirs"].rate))
            self.place.purge(System.PENSTOCK, QUEUE)
            self.place.purge(System.PENSTOCK, SQL_QUEUE)
            self.progress.step()
        for line in (*here, *there):
            line.close()

    async def _load(
        self, lines: list[LoadConnection], pairs: list[tuple[float, float]], window: float
    ) -> None:
        """More than a window can take out."""
        rate = max((ours for ours, _ in pairs), default=8000.0)
        request = enqueue_step(lines[0], QUEUE, wire.json_payload(PAYLOAD_BYTES), 1000)
        for _ in range(int(rate * window * 2 / 1000) + 1):
            await lines[0].send(request)

    def _enqueue(self, batch: int) -> Step:
        payload = wire.json_payload(PAYLOAD_BYTES)

        async def step(line: LoadConnection) -> int:
            await line.send(enqueue_step(line, QUEUE, payload, batch))
            return batch

        return step

    def _static_enqueue(self) -> Step:
        payload = wire.json_payload(PAYLOAD_BYTES)

        async def step(line: LoadConnection) -> int:
            body = b'{"topic":"%s","json":%s}' % (QUEUE.encode(), payload)
            await line.send(line.request("/16", body))
            return 1

        return step

    def _drain_step(self) -> Step:
        async def step(line: LoadConnection) -> int:
            answer = await line.send(dequeue_request(line, QUEUE, 1))
            self.answer_bytes = len(answer)
            settle, count = settle_request(line, answer)
            if count:
                await line.send(settle)
            return count

        return step

    answer_bytes = 800

    def _static_drain(self) -> Step:
        async def step(line: LoadConnection) -> int:
            answer = f"/{self.answer_bytes}"
            await line.send(line.request(answer, b'{"topic":"%s","count":1}' % QUEUE.encode()))
            await line.send(line.request("/48", b'{"lease_token":"1234567"}'))
            return 1

        return step

    def _cycle(self, batch: int) -> Step:
        payload = wire.json_payload(PAYLOAD_BYTES)

        async def step(line: LoadConnection) -> int:
            await line.send(enqueue_step(line, QUEUE, payload, batch))
            settle, count = settle_request(
                line, await line.send(dequeue_request(line, QUEUE, batch))
            )
            if count:
                await line.send(settle)
            return count

        return step

    def _sql_cycle(self, client: AsyncClient, batch: int) -> Step:
        payload = {"message": 0, "body": "x" * (PAYLOAD_BYTES - 29)}

        async def step(line: LoadConnection) -> int:
            await client.enqueue_many(SQL_QUEUE, [payload] * batch)
            leases = await client.claim(SQL_QUEUE, batch)
            return len(await client.ack_many(leases)) if leases else 0

        return step

    async def _long_polls(self, idle_seconds: float, seconds: float) -> None:
        consumers = self.options.consumers
        lines = [await connect(self.url, self.key) for _ in range(consumers)]
        answered: asyncio.Queue[float] = asyncio.Queue()
        polling = [asyncio.create_task(_poll(line, answered)) for line in lines]
        self.progress.say(f"idle, {consumers} consumers wait")
        await asyncio.sleep(3)
        self.found.idle = await self._idle(max(idle_seconds, 3))
        self.progress.step()
        self.progress.say("long polls")
        ends_at = time.monotonic() + seconds
        async with AsyncClient(self.place.dsn, max_size=1) as client:
            await client.stats(POLLED)
            while time.monotonic() < ends_at or len(self.found.polls) < 10:
                began = time.monotonic()
                await client.enqueue(POLLED, {"n": 1})
                self.found.polls.append((await answered.get() - began) * 1000)
                await asyncio.sleep(_POLL_EVERY)
        self.progress.step()
        for task in polling:
            task.cancel()
        await asyncio.gather(*polling, return_exceptions=True)
        for line in lines:
            line.close()

    async def _idle(self, seconds: float) -> float:
        """By the database's own count, without ours; the median, for vacuum comes in bursts."""
        rates = []
        for _ in range(_IDLE_WINDOWS):
            before, began = self._transactions(), time.monotonic()
            await asyncio.sleep(seconds / _IDLE_WINDOWS)
            after = self._transactions()
            rates.append(max(0.0, after - before - 1) / (time.monotonic() - began))
        return median(rates)

    def _transactions(self) -> int:
        return int(self.place.run("transactions"))


async def _poll(line: LoadConnection, answered: "asyncio.Queue[float]") -> None:
    """Waits for a message again and again, and acks what it gets."""
    request = dequeue_request(line, POLLED, 1, wait_seconds=20)
    while True:
        answer = await line.send(request)
        settle, count = settle_request(line, answer)
        if count:
            answered.put_nowait(time.monotonic())
            await line.send(settle)


def _findings(found: Measured, consumers: int) -> Findings:
    def ratio(name: str) -> float | None:
        return Comparison(*map(tuple, zip(*found.rates[name], strict=True))).ratio

    names = {
        "enqueue_1_over_static": "enqueue 1",
        "dequeue_ack_1_over_static": "dequeue and ack 1",
        "batch_100_over_sql": "batch 100",
    }
    p99 = percentile(found.polls, 0.99)
    figures: Figures = {figure: ratio(name) for figure, name in names.items()}
    figures["long_poll_p99_ms"] = p99
    figures["long_poll_idle_queries_per_second"] = found.idle
    rows = [_row(name, found.rates[name], ratio(name)) for name in names.values()]
    p50 = percentile(found.polls, 0.5)
    what = f"long poll, {consumers} wait, p50 and p99 of {len(found.polls)}"
    rows.append(Row(what, f"{ratio_text(p50)}, {ratio_text(p99)} ms", ""))
    rows.append(Row("the same, idle", f"{found.idle or 0:.2f} queries/s", ""))
    samples = {"windows": found.samples, "long_poll_ms": found.polls}
    return Findings(_METHOD, figures, rows, [], samples, HEADINGS)


def _row(name: str, pairs: list[tuple[float, float]], ratio: float | None) -> Row:
    ours, theirs = (rate_text(median(rates)) for rates in zip(*pairs, strict=True))
    return Row(name, ours, theirs, ratio_text(ratio))
