"""Consumers that wait for messages over HTTP, for `bench commit`."""

import asyncio
import time
from collections import deque
from threading import Event, Thread
from typing import Any

from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.http_load import (
    LoadConnection,
    connect,
    dequeue_request,
    lease_ids,
    settle_request,
)
from penstock_benchmarks.load_process import Poll

_WAIT_SECONDS = 20
_START_SECONDS = 30.0


class LongPollers:
    """Long polls on one event loop, in a thread; used as Pollers are."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self._events: deque[tuple[int, float]] = deque()
        self._ready = Event()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None

    def start(self, load: Poll) -> None:
        self._ready.clear()
        self._thread = Thread(target=self._run, args=(load,), daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise BenchError("the HTTP consumers could not connect")
        self._raise()

    def read(self) -> list[tuple[int, float]]:
        self._raise()
        return [self._events.popleft() for _ in range(len(self._events))]

    def end(self) -> list[tuple[int, float]]:
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_START_SECONDS)
        return self.read()

    def _raise(self) -> None:
        if self._error is not None:
            raise BenchError(f"a long poll failed: {self._error}") from self._error

    def _run(self, load: Poll) -> None:
        try:
            asyncio.run(self._serve(load))
        except Exception as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self, load: Poll) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        lines = [await connect(self._url, self._key) for _ in range(load.connections)]
        polling = [asyncio.create_task(self._poll(line, load)) for line in lines]
        self._ready.set()
        stopped = asyncio.create_task(self._stop.wait())
        everything: list[asyncio.Task[Any]] = [*polling, stopped]
        # A poll ends only by an error.
        done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        for task in polling:
            task.cancel()
        for line in lines:
            line.close()
        for ended in done:
            ended.result()

    async def _poll(self, line: LoadConnection, load: Poll) -> None:
        request = dequeue_request(line, load.queue, load.count, wait_seconds=_WAIT_SECONDS)
        while True:
            answer = await line.send(request)
            at = time.monotonic()
            settle, count = settle_request(line, answer)
            if count:
                self._events.extend((id, at) for id in lease_ids(answer))
                await line.send(settle)
