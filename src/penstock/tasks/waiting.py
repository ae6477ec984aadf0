"""Waits for results: any number of waiters share one listening connection."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

import psycopg

from penstock.commands.command import Command
from penstock.commands.write.results import (
    RESULTS_CHANNEL,
    TaskOutcome,
    get_outcome,
    get_results,
)
from penstock.db.listener import Channel, Listener
from penstock.errors import PenstockError

logger = logging.getLogger("penstock.tasks")

_BATCH: Final = 1000
_LIVE: Final = frozenset({"scheduled", "ready", "leased"})
# No notification is sent for a call that was cancelled or expired, or whose worker died.
# Such an end is looked for after these times, by one statement each, so many of them in a row.
_FIRST_LOOK: Final = 1.0
_LOOK_AT_MOST: Final = 15.0
_LOOKS: Final = 50
# After a read the next one waits for so long, so that results which come together are read
# together. A result that comes alone is read at once.
_BREATH: Final = 0.002


class _Call:
    """A call with waiters, and when to look for an end that is not notified."""

    def __init__(self) -> None:
        self.futures: set[asyncio.Future[TaskOutcome | None]] = set()
        self.pause = _FIRST_LOOK
        self.look_at = monotonic() + self.pause

    def end(self, outcome: TaskOutcome | None) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(outcome)

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def look_later(self) -> None:
        self.pause = min(self.pause * 2, _LOOK_AT_MOST)
        self.look_at = monotonic() + self.pause


class ResultWaiter:
    """The calls whose results this process waits for.

    A waiter is known here before its result is looked for, and it is looked for again as soon as
    the connection listens: a result that comes in between is notified.
    """

    def __init__(self, listener: Listener, run: Callable[[Command[Any]], Awaitable[Any]]) -> None:
        self._listener = listener
        self._run = run
        self._calls: dict[int, _Call] = {}
        self._wanted: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._channel: Channel | None = None  # listened to from the first wait on

    async def wait(self, id: int, timeout: float | None) -> TaskOutcome | None:
        """What became of a call, as soon as it has ended; None if it left no trace.

        TimeoutError if it has not ended in time.
        """
        if self._channel is None:
            self._channel = self._listener.listen(RESULTS_CHANNEL, self._notified)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TaskOutcome | None] = loop.create_future()
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = _Call()
        call.futures.add(future)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = loop.create_task(self._sweep())
        self._look(id)
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            call.futures.discard(future)
            if not call.futures and self._calls.get(id) is call:
                del self._calls[id]

    async def close(self) -> None:
        """Stop waiting. Waiters are cancelled."""
        if self._channel is not None:
            self._channel.close()
        tasks = [task for task in (self._reading, self._sweeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for call in self._calls.values():
            for future in call.futures:
                future.cancel()

    async def _sweep(self) -> None:
        """While callers wait: look for ends that are not notified, or for all where deaf."""
        while self._calls:
            await asyncio.sleep(min(_FIRST_LOOK, self._listener.patience, 1.0))
            if not self._listener.healthy:
                self._look(*self._calls)
            now = monotonic()
            due = [(call.look_at, id) for id, call in self._calls.items() if call.look_at <= now]
            for _, id in heapq.nsmallest(_LOOKS, due):
                await self._look_thoroughly(id)

    async def _look_thoroughly(self, id: int) -> None:
        try:
            outcome = await self._run(get_outcome(id))
        except (PenstockError, psycopg.Error) as error:
            self._failed([id], error)
            return
        call = self._calls.get(id)
        if call is None:
            return
        if outcome is None or outcome.state not in _LIVE:
            call.end(outcome)
        else:
            call.look_later()

    def _notified(self, payload: str | None) -> None:
        """Results have come; None: the connection listens from now on, so look at all of them."""
        if payload is None:
            self._look(*self._calls)
        else:
            self._look(*(id for id in map(int, payload.split(",")) if id in self._calls))

    def _look(self, *ids: int) -> None:
        self._wanted.update(ids)
        if self._wanted and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Whatever is wanted when a statement ends shares the next one."""
        while self._wanted:
            ids = list(self._wanted)[:_BATCH]
            self._wanted.difference_update(ids)
            try:
                found = await self._run(get_results(ids))
            except (PenstockError, psycopg.Error) as error:
                self._failed(ids, error)
                return
            for id, outcome in found.items():
                if id in self._calls:
                    self._calls[id].end(outcome)
            await asyncio.sleep(_BREATH)

    def _failed(self, ids: list[int], error: Exception) -> None:
        """Waiters are told, unless another look may help. The next sweep has one."""
        if getattr(error, "retryable", False):
            logger.debug("results could not be read, trying again: %s", error)
            return
        for id in ids:
            if id in self._calls:
                self._calls[id].fail(error)
