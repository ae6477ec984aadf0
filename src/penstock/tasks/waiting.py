"""Waits for results: any number of waiters share one listening connection."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, TypeAlias

import psycopg

from penstock.commands.command import Command
from penstock.commands.write.results import (
    RESULTS_CHANNEL,
    TaskOutcome,
    get_outcome,
    get_results,
)
from penstock.db.listener import POLL_SECONDS, Listener
from penstock.db.subscriptions import Channel
from penstock.errors import PenstockError
from penstock.tasks.deadlines import Deadlines

logger = logging.getLogger("penstock.tasks")

Waiting: TypeAlias = asyncio.Future[TaskOutcome | None]

_BATCH: Final = 1000
_LIVE: Final = frozenset({"scheduled", "ready", "leased"})
# No notification is sent for a call that was cancelled or expired, or whose worker died.
# Calls are swept so often, and such an end is looked for from the second sweep on, by one statement
# for each call, so many of them in a row.
_FIRST_LOOK: Final = 1.0
_LOOK_AT_MOST: Final = 15.0
_LOOKS: Final = 50
# After a read that has failed, the same results are read again so soon, and then less often.
_READ_AGAIN: Final = 0.05
_READ_AGAIN_AT_MOST: Final = 1.0
# After a read that asked for many results and did not find all of them, the next one waits for so
# long, so that results which come together are read together.
_BREATH: Final = 0.002
_MANY: Final = 16


class ResultWaiter:
    """The calls whose results this process waits for.

    A waiter is known here before its result is looked for, and it is looked for again as soon as
    the connection listens: a result that comes in between is notified. Results can be waited for
    before `listen` is called; until then they are looked for by time alone.
    """

    def __init__(self, run: Callable[[Command[Any]], Awaitable[Any]]) -> None:
        self._run = run
        # Known from the first wait on: to ask for the running loop is a system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[int, list[Waiting]] = {}
        self._looks: dict[int, _Look] = {}
        self._deadlines = Deadlines()
        self._wanted: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._channel: Channel | None = None

    def listen(self, listener: Listener) -> None:
        """Receive notifications of results through this listener from now on."""
        self._listener = listener
        if self._calls:
            self._open_channel()

    def wait(self, id: int, ends_at: float | None) -> Waiting:
        """Return the end of a call as soon as it has ended, or None if there is no trace of it.

        TimeoutError if it has not ended at `ends_at`, by `time.monotonic`.
        """
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future: Waiting = loop.create_future()
        futures = self._calls.get(id)
        if futures is None:
            self._calls[id] = [future]
        else:
            futures.append(future)
        if ends_at is not None:
            self._deadlines.add(future, ends_at)
        if self._channel is None:
            self._open_channel()
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = loop.create_task(self._sweep())
        self._wanted.add(id)
        if self._reading is None or self._reading.done():
            self._reading = loop.create_task(self._read())
        return future

    def _open_channel(self) -> None:
        """The connection listens from the first wait on."""
        if self._listener is not None and self._channel is None:
            self._channel = self._listener.listen(RESULTS_CHANNEL, self._notified)

    async def close(self) -> None:
        """Stop waiting. Waiters are cancelled."""
        if self._channel is not None:
            self._channel.close()
        tasks = [task for task in (self._reading, self._sweeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for futures in self._calls.values():
            for future in futures:
                future.cancel()
        self._deadlines.prune()

    async def _sweep(self) -> None:
        """While callers wait: look for ends that are not notified, or for all ends if notifications
        do not arrive."""
        while self._calls:
            await asyncio.sleep(_FIRST_LOOK if self._hears else POLL_SECONDS)
            self._forget_waiters_that_went()
            if not self._hears:
                self._look(*self._calls)
            now = monotonic()
            due = [(look.at, id) for id, look in self._looks.items() if look.at <= now]
            for _, id in heapq.nsmallest(_LOOKS, due):
                await self._look_thoroughly(id)

    def _forget_waiters_that_went(self) -> None:
        """Cancelled, or after their deadline. Only calls that wait for long have a look."""
        self._calls = {
            id: futures
            for id, futures in self._calls.items()
            if not all(future.done() for future in futures)
        }
        self._looks = {id: self._looks.get(id) or _Look() for id in self._calls}
        self._deadlines.prune()

    @property
    def _hears(self) -> bool:
        return self._listener is not None and self._listener.healthy

    async def _look_thoroughly(self, id: int) -> None:
        try:
            outcome = await self._run(get_outcome(id))
        except (PenstockError, psycopg.Error) as error:
            self._failed([id], error)
            return
        if outcome is None or outcome.state not in _LIVE:
            self._end(id, outcome)
        elif id in self._looks:
            self._looks[id].later()

    def _notified(self, payload: str | None) -> None:
        """Results were notified. None: the connection listens from now on, so look at all."""
        if payload is None:
            self._look(*self._calls)
        else:
            self._look(*self._calls.keys() & map(int, payload.split(",")))

    def _look(self, *ids: int) -> None:
        self._wanted.update(ids)
        if self._wanted and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """All lookups that are requested while a statement runs share the next one."""
        pause = _READ_AGAIN
        while self._wanted:
            ids = list(self._wanted)[:_BATCH]
            self._wanted.difference_update(ids)
            try:
                found = await self._run(get_results(ids))
            except (PenstockError, psycopg.Error) as error:
                self._failed(ids, error)
                self._wanted.update(self._calls.keys() & ids)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _READ_AGAIN_AT_MOST)
                continue
            pause = _READ_AGAIN
            for id, outcome in found.items():
                self._end(id, outcome)
            if len(ids) >= _MANY and len(found) < len(ids):
                await asyncio.sleep(_BREATH)

    def _end(self, id: int, outcome: TaskOutcome | None) -> None:
        for future in self._calls.pop(id, ()):
            if not future.done():
                future.set_result(outcome)

    def _failed(self, ids: list[int], error: Exception) -> None:
        """Answer waiters, unless another look may help."""
        if getattr(error, "retryable", False):
            logger.debug("results could not be read, trying again: %s", error)
            return
        for id in ids:
            for future in self._calls.pop(id, ()):
                if not future.done():
                    future.set_exception(error)


class _Look:
    """When to look for the end of a call that is not notified."""

    __slots__ = ("at", "pause")

    def __init__(self) -> None:
        # Not at once: a sweep sees calls, too, that have only just begun to wait.
        self.pause = _FIRST_LOOK
        self.at = monotonic() + _FIRST_LOOK / 2

    def later(self) -> None:
        self.pause = min(self.pause * 2, _LOOK_AT_MOST)
        self.at = monotonic() + self.pause
