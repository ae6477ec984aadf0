"""Batches concurrent calls into one statement and one commit.

A single call runs at once. Calls that arrive while a statement of their kind runs are sent together
when it ends. Only one statement of a kind runs at a time, because with two the database did a third
more work for the same rate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from time import monotonic
from typing import Final, Generic, TypeVar

import psycopg

from penstock.errors import PenstockError

K = TypeVar("K", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output

# Callers that called within this time are expected to call again.
RECENT_SECONDS: Final = 0.02
# How long a batch waits for them. A caller in the middle of another kind of call returns in time.
GATHER_SECONDS: Final = 0.002
# After a wait that reached its limit, 1, 2, 4, ... batches do not wait, up to this number.
MAX_SKIPPED: Final = 64
_MAX_KINDS: Final = 1000
_NOTHING: Final[AbstractSet[int]] = frozenset()


class Batcher(Generic[K, I, O]):
    """Batches the calls of many callers by kind. `flush` runs calls of one kind in one statement.

    `flush` returns a result or an exception for each call. A batch weighs at most `max_weight`. Two
    calls that touch the same message are never in one batch, because its result could not tell
    which of the two succeeded. `undo` gets the results of calls that were cancelled in the
    meantime.

    With `gather`, a batch waits up to two milliseconds for recent callers. Eight busy callers then
    share one statement of eight instead of one of one and one of seven.
    """

    def __init__(
        self,
        flush: Callable[[K, Sequence[I]], Awaitable[Sequence[O | Exception]]],
        *,
        weight: Callable[[I], int] = lambda item: 1,
        max_weight: int = 500,
        touches: Callable[[I], AbstractSet[int]] = lambda item: _NOTHING,
        undo: Callable[[Sequence[O]], Awaitable[None]] | None = None,
        gather: bool = False,
    ) -> None:
        self._flush = flush
        self._weight = weight
        self._max_weight = max_weight
        self._touches = touches
        self._undo = undo
        self._gather = gather
        self._pending: dict[K, _Pending[I, O]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, kind: K, item: I, caller: Hashable = None) -> O:
        """The result of one call."""
        pending = self._pending_of(kind)
        if self._gather or pending.is_busy:
            return await self.put(kind, item, caller)
        # The only call: it needs no task.
        pending.is_busy = True
        try:
            [answer] = await self._flush(kind, [item])
        finally:
            self._go_on(kind, pending)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, kind: K, item: I, caller: Hashable = None) -> asyncio.Future[O]:
        """Like `submit`, without waiting. `gather` uses `caller` to count distinct callers."""
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        pending = self._pending_of(kind)
        pending.add(item, future, caller if self._gather else None)
        if not pending.is_busy:
            self._go_on(kind, pending)
        return future

    def _pending_of(self, kind: K) -> _Pending[I, O]:
        pending = self._pending.get(kind)
        if pending is None:
            if len(self._pending) >= _MAX_KINDS:
                self._pending = {k: each for k, each in self._pending.items() if not each.is_idle()}
            pending = self._pending[kind] = _Pending()
        return pending

    def _go_on(self, kind: K, pending: _Pending[I, O]) -> None:
        pending.is_busy = bool(pending.calls)
        if pending.is_busy:
            # Not in the task of a caller, because that task may be cancelled.
            task = asyncio.create_task(self._serve(kind, pending))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, kind: K, pending: _Pending[I, O]) -> None:
        try:
            while pending.calls:
                if self._gather:
                    await pending.gather(self._max_weight)
                if batch := pending.take(self._weight, self._max_weight, self._touches):
                    await self._run(kind, batch)
        finally:
            pending.is_busy = False

    async def _run(self, kind: K, batch: list[tuple[I, asyncio.Future[O]]]) -> None:
        try:
            answers = await self._flush(kind, [item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        unclaimed: list[O] = []
        for (_, future), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                if not future.done():
                    future.set_exception(answer)
            elif future.done():
                unclaimed.append(answer)
            else:
                future.set_result(answer)
        if unclaimed and self._undo is not None:
            with suppress(PenstockError, psycopg.Error):
                await self._undo(unclaimed)


class _Pending(Generic[I, O]):
    """The waiting calls of one kind, and the recent callers."""

    def __init__(self) -> None:
        self.calls: deque[tuple[I, asyncio.Future[O]]] = deque()
        self.is_busy = False
        self._callers: dict[Hashable, float] = {}
        self._expected = 0
        self._complete: asyncio.Future[None] | None = None
        self._skip = 0
        self._skipped = 0

    def add(self, item: I, future: asyncio.Future[O], caller: Hashable) -> None:
        if caller is not None:
            self._callers[caller] = monotonic()
        self.calls.append((item, future))
        if self._complete is not None and len(self.calls) >= self._expected:
            self._end_wait()

    def is_idle(self) -> bool:
        return not self.is_busy and not self._recent()

    def take(
        self,
        weight: Callable[[I], int],
        max_weight: int,
        touches: Callable[[I], AbstractSet[int]],
    ) -> list[tuple[I, asyncio.Future[O]]]:
        """The next batch, without cancelled calls. The first call may exceed `max_weight`."""
        taken: list[tuple[I, asyncio.Future[O]]] = []
        total, touched = 0, set[int]()
        while self.calls:
            item, future = self.calls[0]
            if not future.done():
                total += weight(item)
                touching = touches(item)
                if taken and (total > max_weight or not touched.isdisjoint(touching)):
                    break
                touched |= touching
                taken.append((item, future))
            self.calls.popleft()
        return taken

    async def gather(self, most: int) -> None:
        """Wait until all recent callers have called, or the time limit is reached.

        If the limit was reached, the next batches do not wait.
        """
        if len(self._callers) <= 1:
            return
        self._expected = min(self._recent(), most)
        if len(self.calls) >= self._expected:
            self._skip = 0
            return
        if self._skipped < self._skip:
            self._skipped += 1
            return
        loop = asyncio.get_running_loop()
        self._complete = loop.create_future()
        timer = loop.call_later(GATHER_SECONDS, self._end_wait)
        try:
            await self._complete
        finally:
            timer.cancel()
            self._complete = None
        self._skipped = 0
        is_incomplete = len(self.calls) < self._expected
        self._skip = min(max(1, self._skip * 2), MAX_SKIPPED) if is_incomplete else 0

    def _recent(self) -> int:
        since = monotonic() - RECENT_SECONDS
        self._callers = {caller: at for caller, at in self._callers.items() if at > since}
        return len(self._callers)

    def _end_wait(self) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)
