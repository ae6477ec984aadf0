"""Groups: calls that are enqueued together, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from penstock.commands import arguments as check
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.commands.write.batches import enqueue_all
from penstock.model.message import Duration
from penstock.tasks.call import Call
from penstock.tasks.chain import Chain, ChainHandle
from penstock.tasks.clients import AppClients
from penstock.tasks.context import enqueue_with_ack
from penstock.tasks.handle import Handle

R = TypeVar("R")

MAX_CALLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class GroupHandle(Generic[R]):
    """A group that was enqueued: a handle for each call, in the order of the calls."""

    handles: tuple[Handle[R], ...]

    async def results(self, timeout: Duration | None = None) -> list[R]:
        """Wait for the results of all calls.

        Args:
            timeout: The longest time to wait. The default is unlimited.

        Returns:
            The results in the order of the calls.

        Raises:
            PenstockError: A call failed, as in `Handle.result`.
        """
        seconds = None if timeout is None else check.duration("timeout", timeout).total_seconds()
        return list(await asyncio.gather(*(handle.result(seconds) for handle in self.handles)))

    def results_sync(self, timeout: Duration | None = None) -> list[R]:
        """As `results`, for code that is not async.

        Args:
            timeout: The longest time to wait. The default is unlimited.
        """
        seconds = None if timeout is None else check.duration("timeout", timeout).total_seconds()
        ends_at = None if seconds is None else monotonic() + seconds
        return [
            handle.result_sync(None if ends_at is None else max(0.0, ends_at - monotonic()))
            for handle in self.handles
        ]


@dataclass(frozen=True, slots=True)
class Group(Generic[R]):
    """Calls that are enqueued together. `group()` makes one."""

    calls: tuple[Call[R] | Chain[R], ...]

    async def enqueue(self, *, connection: Any = UNSET) -> GroupHandle[R]:
        """Enqueue all calls in one transaction, or none."""
        return self._handle(await self._clients.async_client.run(self._command(), connection))

    def enqueue_sync(self, *, connection: Any = UNSET) -> GroupHandle[R]:
        """As `enqueue`, for code that is not async."""
        return self._handle(self._clients.sync_client.run(self._command(), connection))

    def enqueue_with_ack(self) -> None:
        """Enqueue all calls together with the ack of the handler that runs."""
        enqueue_with_ack([call.json_message() for call in self.calls])

    @property
    def _clients(self) -> AppClients:
        return self.calls[0].clients

    def _command(self) -> Command[list[int]]:
        return enqueue_all([call.json_message() for call in self.calls])

    def _handle(self, ids: list[int]) -> GroupHandle[R]:
        return GroupHandle(tuple(map(_handle, ids, self.calls)))


def group(*calls: Call[R] | Chain[R] | Iterable[Call[R] | Chain[R]]) -> Group[R]:
    """Make a group of calls that are enqueued together, in one transaction.

        await group(resize.s(1), resize.s(2)).enqueue()

    Args:
        calls: 1 to 10,000 calls (`task.s(...)`) or chains, or iterables of them.

    Returns:
        A Group. `await group(...).enqueue()` enqueues it.
    """
    found: list[Call[R] | Chain[R]] = []
    for each in calls:
        found += each if isinstance(each, Iterable) else [each]
    for call in found:
        if not isinstance(call, Call | Chain):
            raise check.refuse("group", call, "calls of tasks: task.s(...), or chains")
    if not 1 <= len(found) <= MAX_CALLS:
        allowed = f"1 to {MAX_CALLS} calls; use batch() for more"
        raise check.refuse("group", f"{len(found)} calls", allowed)
    return Group(tuple(found))


def _handle(id: int, call: Call[R] | Chain[R]) -> Handle[R]:
    return (
        ChainHandle(id, call.steps[-1].task) if isinstance(call, Chain) else Handle(id, call.task)
    )
