"""The measured worker: a separate process, controlled through a pipe."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import psycopg

from penstock.client.async_client import AsyncClient
from penstock.db.listener import Listener
from penstock.worker import App, Delivery, Worker
from penstock_benchmarks.crew import interrupts_held
from penstock_benchmarks.errors import BenchError


@dataclass(frozen=True)
class Serve:
    """Run a worker on these queues, whose handlers take so long."""

    queues: tuple[str, ...]
    concurrency: int
    handler_seconds: float = 0.0
    keep_starts: bool = False


@dataclass(frozen=True)
class Attend:
    """Wait for messages of a queue, and leave them alone."""

    queue: str


@dataclass(frozen=True)
class Reading:
    """What the process had done, at a time of the clock that all processes share."""

    at: float
    settled: int
    statements: int
    starts: dict[int, float]


class Subject:
    """The process under measurement, seen from outside."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._ask(None)

    @contextmanager
    def doing(self, work: Serve | Attend) -> Iterator[None]:
        self._ask(work)
        yield
        self._ask("end")

    def read(self) -> Reading:
        found = self._ask("read")
        assert isinstance(found, Reading)
        return found

    def _ask(self, what: object) -> Any:
        try:
            self._pipe.send(what)
            answer = self._pipe.recv()
        except (EOFError, BrokenPipeError):
            raise BenchError("the worker process ended unexpectedly") from None
        if isinstance(answer, Exception):
            raise BenchError(str(answer)) from answer
        return answer


@contextmanager
def subject(dsn: str) -> Iterator[Subject]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=process_main, args=(theirs, dsn), daemon=True)
    with interrupts_held():
        process.start()
    theirs.close()
    try:
        yield Subject(ours)
    finally:
        ours.close()
        process.join(timeout=10)
        if process.is_alive():
            process.terminate()
            process.join()


def process_main(pipe: Connection, dsn: str) -> None:
    with suppress(EOFError, BrokenPipeError):
        asyncio.run(_Process(pipe, dsn).run())


class _Process:
    def __init__(self, pipe: Connection, dsn: str) -> None:
        self._pipe = pipe
        self._dsn = dsn
        self._statements = 0
        self._starts: dict[int, float] = {}
        self._worker: Worker | None = None
        self._end: Callable[[], Awaitable[None]] | None = None

    async def run(self) -> None:
        self._count_statements()
        while True:
            order = await asyncio.to_thread(self._pipe.recv)
            try:
                self._pipe.send(await self._obey(order))
            except Exception as error:
                self._pipe.send(BenchError(f"{type(error).__name__}: {error}"))

    async def _obey(self, order: object) -> Reading | None:
        if order == "read":
            settled = self._worker.settled if self._worker else 0
            starts = self._starts.copy()
            self._starts.clear()
            return Reading(time.monotonic(), settled, self._statements, starts)
        if order == "end" and self._end is not None:
            await self._end()
            self._end = self._worker = None
        elif isinstance(order, Serve):
            await self._serve(order)
        elif isinstance(order, Attend):
            await self._attend(order)
        return None

    async def _serve(self, order: Serve) -> None:
        worker = Worker(_app(order, self._starts), self._dsn)
        await worker.start()
        self._worker, self._end = worker, worker.drain
        # It looks at all its queues when it begins to listen: on a disk that is still busy with the
        # load before, that may be seconds after its start.
        with suppress(TimeoutError):  # never, behind a pooler
            async with asyncio.timeout(10):
                while not worker.is_listening:  # noqa: ASYNC110 - once, in a benchmark
                    await asyncio.sleep(0.01)

    async def _attend(self, order: Attend) -> None:
        client = AsyncClient(self._dsn, max_size=1)
        listener = Listener(self._dsn, client.run)
        await listener.start()
        waiting = asyncio.create_task(_wait_for_ever(listener, order.queue))

        async def end() -> None:
            waiting.cancel()
            await listener.stop()
            await client.close()

        self._end = end
        while not listener.healthy:  # noqa: ASYNC110 - once, in a benchmark
            await asyncio.sleep(0.01)

    def _count_statements(self) -> None:
        """Counts every statement of this process, because psycopg offers no other way."""
        execute = psycopg.AsyncCursor.execute

        async def counted(cursor: Any, *args: Any, **options: Any) -> Any:
            self._statements += 1
            return await execute(cursor, *args, **options)

        psycopg.AsyncCursor.execute = counted  # type: ignore[method-assign, assignment]


async def _wait_for_ever(listener: Listener, queue: str) -> None:
    with listener.subscribe(queue) as subscription:
        while True:
            await subscription.wait(60)


def _app(order: Serve, starts: dict[int, float]) -> App:
    app = App()
    pause, clock = order.handler_seconds, time.monotonic

    async def nothing(message: Delivery) -> None:
        # Even a handler that does nothing has looked at its message.
        assert message.payload is not None

    async def short(message: Delivery) -> None:
        assert message.payload is not None
        await asyncio.sleep(pause)

    async def noted(message: Delivery) -> None:
        starts[message.id] = clock()

    chosen = noted if order.keep_starts else short if pause else nothing
    for queue in order.queues:
        app.handler(queue, concurrency=order.concurrency)(chosen)
    return app
