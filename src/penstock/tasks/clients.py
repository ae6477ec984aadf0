"""The clients through which an application enqueues tasks, and waits for their results."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

import psycopg

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands.write.results import TaskOutcome
from penstock.db import forks
from penstock.db.listener import Listener
from penstock.db.locate import locate
from penstock.db.loop_thread import LoopThread
from penstock.errors import PenstockError
from penstock.tasks.context import current_delivery
from penstock.tasks.waiting import ResultWaiter


class _LoopClients:
    """The pool of one event loop, and the connection that listens for results."""

    def __init__(self, dsn: str | None) -> None:
        self.client = AsyncClient(dsn)
        self._dsn = dsn
        self._listener: Listener | None = None
        self._waiter: ResultWaiter | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def waiter(self) -> ResultWaiter:
        if self._waiter is None:
            self._waiter = ResultWaiter(self.client.run)
        if self._listener is None and (self._starting is None or self._starting.done()):
            self._starting = asyncio.get_running_loop().create_task(self._listen(self._waiter))
        return self._waiter

    async def _listen(self, waiter: ResultWaiter) -> None:
        """Runs in the background. If it fails, the waiter gets the same error when it looks."""
        with suppress(PenstockError, psycopg.Error, OSError):
            dsn = await asyncio.to_thread(locate, self._dsn)
            self._listener = Listener(dsn, self.client.run)
            await self._listener.start()
            waiter.listen(self._listener)

    async def close(self) -> None:
        if self._starting is not None:
            await self._starting
        if self._waiter is not None:
            await self._waiter.close()
        if self._listener is not None:
            await self._listener.stop()
        await self.client.close()


class AppClients:
    """Made at the first use: one sync client, and an async one for each event loop.

    A pool belongs to the loop that opened it, and an application may run several loops, one after
    the other. Inside a handler, all of them are the worker's.
    """

    around_child_call: str | None = None
    """`module:name` of a context manager around each call in a child process."""

    def __init__(self, dsn: str | None) -> None:
        self.dsn = dsn
        self._start()
        forks.register(self)

    def _start(self) -> None:
        self._sync: Client | None = None
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = (
            WeakKeyDictionary()
        )

    def _after_fork(self) -> None:
        """In a child process: forget the loops and threads of the parent, which do not run here."""
        forks.abandon(dict(vars(self)))
        self._start()

    @property
    def async_client(self) -> AsyncClient:
        delivery = current_delivery.get()
        if delivery is not None:
            return delivery.client  # type: ignore[no-any-return]
        return self.own_async_client

    @property
    def own_async_client(self) -> AsyncClient:
        """The client of the running loop, also inside a handler."""
        return self._of_loop().client

    @property
    def sync_client(self) -> Client:
        delivery = current_delivery.get()
        if delivery is not None and delivery._runner.sync_client is not None:
            return delivery._runner.sync_client  # type: ignore[no-any-return]
        with self._starting:
            if self._sync is None:
                self._sync = Client(self.dsn)
            return self._sync

    def wait(self, id: int, ends_at: float | None) -> Awaitable[TaskOutcome | None]:
        """As `ResultWaiter.wait`, with the waiter of the worker or of this loop."""
        delivery = current_delivery.get()
        if delivery is not None and delivery._runner.waiter is not None:
            waiter: ResultWaiter = delivery._runner.waiter
        else:
            waiter = self._of_loop().waiter
        return waiter.wait(id, ends_at)

    def wait_sync(self, id: int, ends_at: float | None) -> TaskOutcome | None:
        """As `wait`, in any thread: all of them share a loop in a thread."""
        if current_delivery.get() is not None and asyncio._get_running_loop() is not None:
            raise PenstockError(
                "an async task must not block the event loop of its worker",
                hint="Use `await handle.result()` instead of result_sync().",
            )

        async def wait() -> TaskOutcome | None:
            return await self._of_loop().waiter.wait(id, ends_at)

        with self._starting:
            if self._thread is None:
                self._thread = LoopThread("penstock-results")
        return self._thread.run(wait())

    @contextmanager
    def at(self, dsn: str) -> Iterator[None]:
        """Use another database meanwhile."""
        before = self.dsn, self._by_loop
        self.close_sync()
        self.dsn, self._by_loop = dsn, WeakKeyDictionary()
        try:
            yield
        finally:
            self.close_sync()
            self.dsn, self._by_loop = before

    async def close(self) -> None:
        """Close the clients of the running loop, and what threads use."""
        await self.close_loop()
        await asyncio.to_thread(self.close_sync)

    async def close_loop(self) -> None:
        """Close the clients of the running loop."""
        mine = self._by_loop.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            await mine.close()

    def close_sync(self) -> None:
        """Close what threads use."""
        client, self._sync = self._sync, None
        thread, self._thread = self._thread, None
        if client is not None:
            client.close()
        if thread is not None:
            mine = self._by_loop.pop(thread.loop, None)
            if mine is not None:
                thread.run(mine.close())
            thread.close()

    def _of_loop(self) -> _LoopClients:
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            found = self._by_loop[loop] = _LoopClients(self.dsn)
        return found
