"""Acks of a client. Those that come while another is under way go together when it is done: one
statement and one commit for all of them. One that comes alone goes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from penstock import arguments as check
from penstock import operations
from penstock.command import Command
from penstock.message import LeaseLike
from penstock.operations.waiting import ack_pairs

_Pair: TypeAlias = tuple[int, int]
# So many of one caller's are enough for a statement of their own.
ENOUGH: Final = 32
# Messages in one statement that callers share.
MOST: Final = 1000


class Acks:
    """Without async there is nothing to gather: each thread's go by themselves."""

    def __init__(self, run: Callable[[Command[Any], Any], Any], *, together: bool) -> None:
        self._run = run

    def one(self, lease: LeaseLike, connection: Any) -> None:
        self._run(operations.ack(lease), connection)

    def many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        settled: set[int] = self._run(ack_pairs(check.leases(leases)), connection)
        return settled


class AsyncAcks:
    """`together` is whether calls without a connection of their own may share a transaction."""

    def __init__(self, run: Callable[[Command[Any], Any], Awaitable[Any]], *, together: bool):
        self._run = run
        self._together = together
        self._is_busy = False
        self._waiting: list[tuple[list[_Pair], asyncio.Future[set[int]]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def one(self, lease: LeaseLike, connection: Any) -> None:
        pair = check.lease(lease)
        if not self._gathers(connection):
            await self._alone(operations.ack(pair), connection)
        elif not await self._in_company([pair]):
            await self._run(operations.ack(pair), None)  # which says what is wrong with it

    async def many(self, leases: Sequence[LeaseLike], connection: Any) -> set[int]:
        pairs = check.leases(leases)
        if len(pairs) < ENOUGH and self._gathers(connection):
            return await self._in_company(pairs)
        run = self._alone if len(pairs) < ENOUGH else self._run
        settled: set[int] = await run(ack_pairs(pairs), connection)
        return settled

    def _gathers(self, connection: Any) -> bool:
        return self._is_busy and self._together and connection is None

    async def _alone(self, command: Command[Any], connection: Any) -> Any:
        if not self._together or connection is not None:
            return await self._run(command, connection)
        self._is_busy = True
        try:
            return await self._run(command, None)
        finally:
            self._go_on()

    async def _in_company(self, pairs: list[_Pair]) -> set[int]:
        future: asyncio.Future[set[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((pairs, future))
        return await future

    def _go_on(self) -> None:
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            # Not in the name of one of them, who may be cancelled.
            task = asyncio.create_task(self._send())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self) -> None:
        taken = self._take()
        try:
            command = ack_pairs([pair for pairs, _ in taken for pair in pairs])
            settled = await self._run(command, None)
            for pairs, future in taken:
                if not future.done():  # else its caller has gone
                    future.set_result({id for id, _ in pairs} & settled)
        except BaseException as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._go_on()

    def _take(self) -> list[tuple[list[_Pair], asyncio.Future[set[int]]]]:
        """As many as go into one statement. Two proofs for one message do not: which of them was
        right, the answer would not say."""
        taken, ids = 0, set[int]()
        for pairs, _ in self._waiting:
            more = {id for id, _ in pairs}
            if len(ids) + len(more) > MOST or not ids.isdisjoint(more):
                break
            ids |= more
            taken += 1
        chosen, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return chosen
