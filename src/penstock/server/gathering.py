"""Calls that come at the same moment, done together: one statement and one commit for all of them.

Nobody waits for company. A call that finds nothing under way goes at once; those that come while
it is under way go together when it is done. So one caller has the latency of one statement, and
many share the cost of a commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - what goes in, beside what comes out
O = TypeVar("O")  # noqa: E741

MOST = 500


class Gatherer(Generic[K, I, O]):
    """`flush` does many of one kind; it answers each with a result, or with the error it gets."""

    def __init__(
        self, flush: Callable[[K, Sequence[I]], Awaitable[Sequence[O | Exception]]]
    ) -> None:
        self._flush = flush
        self._waiting: dict[K, deque[tuple[I, asyncio.Future[O]]]] = {}
        self._flying: set[asyncio.Task[None]] = set()

    async def submit(self, key: K, item: I) -> O:
        """Do it, with whatever else of its kind there is to do."""
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append((item, future))
            return await future
        self._waiting[key] = deque([(item, future)])
        task = asyncio.create_task(self._fly(key))
        self._flying.add(task)
        task.add_done_callback(self._flying.discard)
        return await future

    async def _fly(self, key: K) -> None:
        waiting = self._waiting[key]
        while waiting:
            batch = [waiting.popleft() for _ in range(min(MOST, len(waiting)))]
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
        del self._waiting[key]
