"""Claims and acks of a client. Those that come while another is under way go together when it is
done: one statement and one commit for all of them. One that comes alone goes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

import psycopg

from penstock import arguments as check
from penstock import operations
from penstock.command import Command
from penstock.errors import LeaseLostError, PenstockError
from penstock.message import Duration, Lease, LeaseLike
from penstock.operations.waiting import ack_pairs

I = TypeVar("I")  # noqa: E741 - what goes in, beside what comes out
O = TypeVar("O")  # noqa: E741
_Pair: TypeAlias = tuple[int, int]
# A caller with so many messages has enough for a statement of its own.
ENOUGH: Final = 32
# Messages in one statement that callers share.
MOST: Final = 1000
# Kinds of claims that are remembered: there is a line for each.
_KINDS: Final = 1000


class Together:
    """Without async there is nothing to gather: each thread's calls go by themselves."""

    def __init__(self, run: Callable[[Command[Any], Any], Any], *, gather: bool) -> None:
        self._run = run

    def claim(
        self, queue: str, count: int, lease_seconds: Duration | None, worker: str, connection: Any
    ) -> list[Lease]:
        command = operations.claim(queue, count, lease_seconds=lease_seconds, worker=worker)
        leases: list[Lease] = self._run(command, connection)
        return leases

    def ack(self, lease: LeaseLike, connection: Any) -> None:
        self._run(operations.ack(lease), connection)

    def ack_many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        settled: set[int] = self._run(ack_pairs(check.leases(leases)), connection)
        return settled


class AsyncTogether:
    """`gather` is whether calls without a connection of their own may share a transaction."""

    def __init__(self, run: Callable[[Command[Any], Any], Awaitable[Any]], *, gather: bool) -> None:
        self._run = run
        self._gather = gather
        self._acks = _Line(self._ack, weigh=len, touches=_ids)
        self._claims: dict[Any, _Line[int, list[Lease]]] = {}

    async def claim(
        self, queue: str, count: int, lease_seconds: Duration | None, worker: str, connection: Any
    ) -> list[Lease]:
        command = operations.claim(queue, count, lease_seconds=lease_seconds, worker=worker)
        if not self._gather or connection is not check.UNSET or not 0 < count < ENOUGH:
            leases: list[Lease] = await self._run(command, connection)
            return leases
        return await self._line_for(queue, lease_seconds, worker).submit(count)

    async def ack(self, lease: LeaseLike, connection: Any) -> None:
        pair = check.lease(lease)
        if not self._gather or connection is not check.UNSET:
            await self._run(operations.ack(pair), connection)
        elif not await self._acks.submit([pair]):
            await self._run(operations.ack(pair), check.UNSET)  # which says what is wrong with it

    async def ack_many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        pairs = check.leases(leases)
        if not self._gather or connection is not check.UNSET or len(pairs) >= ENOUGH:
            settled: set[int] = await self._run(ack_pairs(pairs), connection)
            return settled
        return await self._acks.submit(pairs)

    async def _ack(self, calls: Sequence[list[_Pair]]) -> list[set[int]]:
        pairs = [pair for call in calls for pair in call]
        if len(pairs) == 1:
            try:
                await self._run(operations.ack(pairs[0]), check.UNSET)
            except LeaseLostError:
                return [set()]
            return [{pairs[0][0]}]
        settled = await self._run(ack_pairs(pairs), check.UNSET)
        return [_ids(call) & settled for call in calls]

    def _line_for(
        self, queue: str, lease_seconds: Duration | None, worker: str
    ) -> _Line[int, list[Lease]]:
        kind = queue, lease_seconds, worker
        if kind not in self._claims:
            if len(self._claims) >= _KINDS:
                self._claims = {key: line for key, line in self._claims.items() if line.is_busy}

            async def claim(counts: Sequence[int]) -> list[list[Lease]]:
                command = operations.claim(
                    queue, sum(counts), lease_seconds=lease_seconds, worker=worker
                )
                leases = iter(await self._run(command, check.UNSET))
                return [list(islice(leases, count)) for count in counts]

            self._claims[kind] = _Line(claim, weigh=int, undo=self._give_back)
        return self._claims[kind]

    async def _give_back(self, answers: Sequence[list[Lease]]) -> None:
        """Without burning the attempts that nobody made."""
        if leases := [lease for answer in answers for lease in answer]:
            await self._run(operations.snooze_many(leases, 0), check.UNSET)


class _Line(Generic[I, O]):
    """Calls of one kind. `do` does several, and answers each.

    Two that touch the same message do not go together: which of them was right, the answer would
    not say. `undo` is for answers to callers who have gone meanwhile.
    """

    def __init__(
        self,
        do: Callable[[Sequence[I]], Awaitable[Sequence[O]]],
        *,
        weigh: Callable[[I], int],
        touches: Callable[[I], set[int]] = lambda item: set(),
        undo: Callable[[Sequence[O]], Awaitable[None]] | None = None,
    ) -> None:
        self._do = do
        self._weigh = weigh
        self._touches = touches
        self._undo = undo
        self._waiting: list[tuple[I, asyncio.Future[O]]] = []
        # One statement at a time: with two, the database worked a third more for the same pace.
        self.is_busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: I) -> O:
        if not self.is_busy:
            self.is_busy = True
            try:
                [answer] = await self._do([item])
                return answer
            finally:
                self._go_on()
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        return await future

    def _go_on(self) -> None:
        self._waiting = [each for each in self._waiting if not each[1].done()]
        self.is_busy = bool(self._waiting)
        if self.is_busy:
            # Not in the name of one of the callers, who may be cancelled.
            task = asyncio.create_task(self._serve(*self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, items: list[I], futures: list[asyncio.Future[O]]) -> None:
        try:
            answers = await self._do(items)
        except BaseException as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            left = []
            for future, answer in zip(futures, answers, strict=True):
                if future.done():  # its caller has gone
                    left.append(answer)
                else:
                    future.set_result(answer)
            if left and self._undo is not None:
                with suppress(PenstockError, psycopg.Error):
                    await self._undo(left)
        finally:
            self._go_on()

    def _take(self) -> tuple[list[I], list[asyncio.Future[O]]]:
        items: list[I] = []
        weight, touched = 0, set[int]()
        for item, _ in self._waiting:
            weight += self._weigh(item)
            touches = self._touches(item)
            if items and (weight > MOST or not touched.isdisjoint(touches)):
                break
            touched |= touches
            items.append(item)
        futures = [future for _, future in self._waiting[: len(items)]]
        del self._waiting[: len(items)]
        return items, futures


def _ids(call: Sequence[_Pair]) -> set[int]:
    return {id for id, _ in call}
