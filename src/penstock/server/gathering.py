"""Calls that come at the same moment, done together: one statement and one commit for all of them.

A call that comes alone goes at once. Those that come while a statement of their kind is under way
go together when it is done. And where several callers come again and again, what waits stays a
moment for those who were here just before, two milliseconds at most: eight callers are then one
statement, not one and seven, and stay together from there on. Where that was in vain it is not
tried again for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from time import monotonic
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - what goes in, beside what comes out
O = TypeVar("O")  # noqa: E741

MOST: Final = 500
# Who came within this time is expected again.
RECENT_SECONDS: Final = 0.02
# How long they are waited for: long enough for who is busy with another kind of call.
COMPANY_SECONDS: Final = 0.002
# After waits in vain, so many statements go without one: 1, 2, 4, ... up to this.
MOST_SKIPPED: Final = 64
_LINES: Final = 1000


class _Line(Generic[I, O]):
    """Who waits for a statement of one kind, and who came for one lately."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[I, asyncio.Future[O]]] = deque()
        self.is_served = False
        self._callers: dict[Hashable, float] = {}
        self._expected = 0
        self._complete: asyncio.Future[None] | None = None
        self._skip = 0
        self._skipped = 0

    def add(self, item: I, future: asyncio.Future[O], caller: Hashable) -> None:
        self._callers[caller] = monotonic()
        self.waiting.append((item, future))
        if self._complete is not None and len(self.waiting) >= self._expected:
            self._end_wait()

    def is_idle(self) -> bool:
        return not self.is_served and not self._recent()

    def take(self, weight: Callable[[I], int], most: int) -> list[tuple[I, asyncio.Future[O]]]:
        """Those that one statement can do; the first, however heavy it is."""
        taken = [self.waiting.popleft()]
        room = most - weight(taken[0][0])
        while self.waiting and weight(self.waiting[0][0]) <= room:
            taken.append(self.waiting.popleft())
            room -= weight(taken[-1][0])
        return taken

    async def company(self) -> None:
        """Until all wait who came lately, or the moment is over."""
        if len(self._callers) <= 1:
            return
        self._expected = min(self._recent(), MOST)
        if len(self.waiting) >= self._expected:
            self._skip = 0
            return
        if self._skipped < self._skip:
            self._skipped += 1
            return
        loop = asyncio.get_running_loop()
        self._complete = loop.create_future()
        timer = loop.call_later(COMPANY_SECONDS, self._end_wait)
        try:
            await self._complete
        finally:
            timer.cancel()
            self._complete = None
        self._skipped = 0
        in_vain = len(self.waiting) < self._expected
        self._skip = min(max(1, self._skip * 2), MOST_SKIPPED) if in_vain else 0

    def _recent(self) -> int:
        since = monotonic() - RECENT_SECONDS
        self._callers = {caller: at for caller, at in self._callers.items() if at > since}
        return len(self._callers)

    def _end_wait(self) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)


class Gatherer(Generic[K, I, O]):
    """`flush` does many of one kind; it answers each with a result, or with the error it gets.

    What it does at once weighs `most` together.
    """

    def __init__(
        self,
        flush: Callable[[K, Sequence[I]], Awaitable[Sequence[O | Exception]]],
        weight: Callable[[I], int] = lambda item: 1,
        most: int = MOST,
    ) -> None:
        self._flush = flush
        self._weight = weight
        self._most = most
        self._lines: dict[K, _Line[I, O]] = {}
        self._serving: set[asyncio.Task[None]] = set()

    async def submit(self, key: K, item: I, caller: Hashable) -> O:
        """Do it, with whatever else of its kind there is to do; `caller` tells callers apart."""
        return await self.put(key, item, caller)

    def put(self, key: K, item: I, caller: Hashable) -> asyncio.Future[O]:
        """The same, for who has other things to do meanwhile."""
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        line = self._lines.get(key)
        if line is None:
            self._forget_idle()
            line = self._lines[key] = _Line()
        line.add(item, future, caller)
        if not line.is_served:
            line.is_served = True
            task = asyncio.create_task(self._serve(key, line))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        return future

    async def _serve(self, key: K, line: _Line[I, O]) -> None:
        waiting = line.waiting
        try:
            while waiting:
                await line.company()
                batch = line.take(self._weight, self._most)
                try:
                    answers = await self._flush(key, [item for item, _ in batch])
                except Exception as error:
                    answers = [error] * len(batch)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():  # its caller has gone
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            line.is_served = False

    def _forget_idle(self) -> None:
        if len(self._lines) >= _LINES:
            self._lines = {key: line for key, line in self._lines.items() if not line.is_idle()}
