"""Batches: any number of calls, and the calls that follow when all of them have ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain as flatten
from typing import Any, Final, TypeAlias

from penstock.commands import arguments as check
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.commands.write.batches import (
    MEMBERS_IN_CALL,
    add_to_batch,
    cancel_batch,
    create_batch,
    get_batch,
    seal_batch,
)
from penstock.errors import ConfigurationError, PenstockError
from penstock.model.batch import BatchProgress
from penstock.model.message import Duration, NewMessage
from penstock.tasks.call import Call
from penstock.tasks.chain import Chain
from penstock.tasks.clients import AppClients

logger = logging.getLogger("penstock.tasks")

AnyCall: TypeAlias = Call[Any] | Chain[Any]
# Commands to run one after the other: the result of each is sent back, and an error is thrown in.
Steps: TypeAlias = Generator[Command[Any], Any, Any]

# How often a batch is looked at while a caller waits for it.
_FIRST_LOOK: Final = 0.02
_LOOK_AT_MOST: Final = 1.0
# Members that move while they are cancelled are looked for again, so often in a row. Workers and
# servers cancel those that another transaction has locked for longer.
_CANCEL_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class BatchHandle:
    """A batch that was enqueued. `app.batch(id)` returns the handle of an earlier one.

    Attributes:
        id: The id of the batch.
    """

    id: int
    _clients: AppClients = field(repr=False)

    async def progress(self) -> BatchProgress:
        """Return how many members have ended, and in which state.

        Raises:
            BatchNotFoundError: The batch finished more than seven days ago, or never existed.
        """
        return await self._clients.async_client.run(get_batch(self.id))

    def progress_sync(self) -> BatchProgress:
        """As `progress`, for code that is not async."""
        return self._clients.sync_client.run(get_batch(self.id))

    async def wait(self, timeout: Duration | None = None) -> BatchProgress:
        """Wait until the batch has finished.

        Args:
            timeout: The longest time to wait. The default is unlimited.

        Returns:
            The numbers of its members.

        Raises:
            TimeoutError: The batch has not finished in time.
        """
        seconds = _seconds(timeout)
        try:
            async with asyncio.timeout(seconds):
                for pause in _pauses():
                    found = await self.progress()
                    if found.state == "finished":
                        return found
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise self._too_late(seconds) from None
        raise AssertionError("unreachable")

    def wait_sync(self, timeout: Duration | None = None) -> BatchProgress:
        """As `wait`, for code that is not async.

        Args:
            timeout: The longest time to wait. The default is unlimited.
        """
        seconds = _seconds(timeout)
        ends_at = None if seconds is None else time.monotonic() + seconds
        for pause in _pauses():
            found = self.progress_sync()
            if found.state == "finished":
                return found
            if ends_at is not None and time.monotonic() + pause > ends_at:
                raise self._too_late(seconds)
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _too_late(self, seconds: float | None) -> TimeoutError:
        return TimeoutError(f"batch {self.id} has not finished within {seconds or 0:g} s")

    async def cancel(self) -> int:
        """Cancel the members that have not ended, even those that run.

        The batch finishes. If members were cancelled, `on_failure` and `on_finish` are enqueued.

        Returns:
            The number of cancelled members.
        """
        return int(await _run(_cancel(self.id), self._clients, UNSET))

    def cancel_sync(self) -> int:
        """As `cancel`, for code that is not async."""
        return int(_run_sync(_cancel(self.id), self._clients, UNSET))


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls, and the calls to enqueue when all of them have ended. `batch()` makes one."""

    calls: Iterable[AnyCall]
    name: str | None
    on_success: AnyCall | None
    on_failure: AnyCall | None
    on_finish: AnyCall | None

    async def enqueue(self, *, connection: Any = UNSET) -> BatchHandle:
        """Enqueue the calls, 1,000 in a transaction, or all of them in that of `connection`.

        If a call is refused, the calls that were enqueued before are cancelled.
        """
        clients, calls = self._begin()
        id = await _run(self._enqueue(calls, connection is UNSET), clients, connection)
        return BatchHandle(id, clients)

    def enqueue_sync(self, *, connection: Any = UNSET) -> BatchHandle:
        """As `enqueue`, for code that is not async."""
        clients, calls = self._begin()
        id = _run_sync(self._enqueue(calls, connection is UNSET), clients, connection)
        return BatchHandle(id, clients)

    @property
    def _followers(self) -> dict[str, AnyCall | None]:
        return {
            "on_success": self.on_success,
            "on_failure": self.on_failure,
            "on_finish": self.on_finish,
        }

    def _begin(self) -> tuple[AppClients, Iterator[AnyCall]]:
        """The app of the first call, or of one that follows, and all calls."""
        calls = iter(self.calls)
        first = next(calls, None)
        known = [
            _call(field, each)
            for field, each in (("batch", first), *self._followers.items())
            if each is not None
        ]
        if not known:
            raise ConfigurationError(
                "the batch has no calls, and enqueues none at its end",
                hint="Give it calls: batch([task.s(1), task.s(2)], on_finish=other.s()).",
            )
        return known[0].clients, flatten([] if first is None else [first], calls)

    def _enqueue(self, calls: Iterator[AnyCall], undo: bool) -> Steps:
        follow = [
            [] if each is None else [_call(field, each).json_message()]
            for field, each in self._followers.items()
        ]
        id = yield create_batch(self.name, *follow)
        try:
            for queue, messages in _pieces(calls):
                yield add_to_batch(id, queue, messages)
            yield seal_batch(id)
        except Exception:
            if undo:
                yield from _undo(id)
            raise
        return id


def batch(
    calls: Iterable[AnyCall],
    *,
    name: str | None = None,
    on_success: AnyCall | None = None,
    on_failure: AnyCall | None = None,
    on_finish: AnyCall | None = None,
) -> Batch:
    """Make a batch of calls, with calls that follow when all of them have ended.

    Args:
        calls: Calls of tasks (`task.s(...)`) or chains. A generator is read in pieces. Members have
            no keys.
        name: A name for the UI.
        on_success: The call to enqueue if every member is done.
        on_failure: The call to enqueue if a member has ended in another way.
        on_finish: The call to enqueue in both cases.

    Returns:
        A Batch. `await batch(...).enqueue()` enqueues it.
    """
    if not isinstance(calls, Iterable):
        raise check.refuse("batch", calls, "a list or another iterable of calls: task.s(...)")
    return Batch(calls, name, on_success, on_failure, on_finish)


def _call(field: str, call: Any) -> AnyCall:
    if not isinstance(call, Call | Chain):
        raise check.refuse(field, call, "a call of a task: task.s(...), or a chain")
    return call


def _pieces(calls: Iterator[AnyCall]) -> Iterator[tuple[str, list[NewMessage]]]:
    """The messages of the calls, up to 1,000 of a queue at a time."""
    waiting: dict[str, list[NewMessage]] = {}
    for call in calls:
        _call("batch", call)
        messages = waiting.setdefault(call.queue, [])
        messages.append(call.message())
        if len(messages) == MEMBERS_IN_CALL:
            yield call.queue, waiting.pop(call.queue)
    yield from waiting.items()


def _undo(id: int) -> Steps:
    """Cancel a batch that could not be enqueued as a whole. A producer lacks the right to."""
    try:
        yield from _cancel(id)
    except PenstockError as error:
        logger.warning("batch %d stays open, because it could not be cancelled: %s", id, error)


def _cancel(id: int) -> Steps:
    cancelled = rounds = 0
    while True:
        found = yield cancel_batch(id)
        cancelled += found.members
        rounds = 0 if found.members else rounds + 1
        if not found.more or rounds == _CANCEL_ROUNDS:
            return cancelled


async def _run(steps: Steps, clients: AppClients, connection: Any) -> Any:
    answer: Callable[[], Command[Any]] = steps.__next__
    while True:
        try:
            command = answer()
        except StopIteration as end:
            return end.value
        try:
            value = await clients.async_client.run(command, connection)
        except Exception as error:
            answer = _throw(steps, error)
        else:
            answer = _send(steps, value)


def _run_sync(steps: Steps, clients: AppClients, connection: Any) -> Any:
    answer: Callable[[], Command[Any]] = steps.__next__
    while True:
        try:
            command = answer()
        except StopIteration as end:
            return end.value
        try:
            value = clients.sync_client.run(command, connection)
        except Exception as error:
            answer = _throw(steps, error)
        else:
            answer = _send(steps, value)


def _send(steps: Steps, value: Any) -> Callable[[], Command[Any]]:
    return lambda: steps.send(value)


def _throw(steps: Steps, error: Exception) -> Callable[[], Command[Any]]:
    return lambda: steps.throw(error)


def _pauses() -> Iterator[float]:
    pause = _FIRST_LOOK
    while True:
        yield pause
        pause = min(pause * 1.5, _LOOK_AT_MOST)


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else check.duration("timeout", timeout).total_seconds()
