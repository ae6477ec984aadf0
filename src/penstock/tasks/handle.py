"""A call that was enqueued, and its result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.commands import arguments as check
from penstock.commands.write import cancel
from penstock.commands.write.results import TaskOutcome
from penstock.errors import (
    PenstockError,
    ResultNotFoundError,
    TaskCancelledError,
    TaskExpiredError,
    TaskFailedError,
)
from penstock.model.message import Duration

if TYPE_CHECKING:
    from penstock.tasks.task import Task

R = TypeVar("R")

_LONGEST: Final = 1_000_000_000
_TRACEBACK: Final = "\n\nTraceback (most recent call last):\n"
_CUT: Final = "\n\n...\n"
_ERROR: Final = re.compile(r"([^\W\d]\w*(?:\.\w+)*): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Handle(Generic[R]):
    """A call that was enqueued.

    Attributes:
        id: The id of its message.
        task: The task.
    """

    id: int
    task: Task[..., R]

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the result of the call.

        Args:
            timeout: The longest time to wait. The default is unlimited.

        Returns:
            The value that the task returned.

        Raises:
            TimeoutError: The call has not ended in time.
            TaskFailedError: The call is a dead letter.
            TaskCancelledError: The call was cancelled or superseded.
            TaskExpiredError: The call expired before a worker could run it.
            ResultNotFoundError: The result was not kept.
        """
        ends_at, id = _ends_at(timeout), self.id
        while True:
            try:
                outcome = await self.task._clients.wait(id, ends_at)
            except TimeoutError:
                raise self._too_late(timeout) from None
            if outcome is None or outcome.next_id is None:
                return self._value(id, outcome)
            id = outcome.next_id

    def result_sync(self, timeout: Duration | None = None) -> R:
        """As `result`, for code that is not async.

        Args:
            timeout: The longest time to wait. The default is unlimited.
        """
        ends_at, id = _ends_at(timeout), self.id
        while True:
            try:
                outcome = self.task._clients.wait_sync(id, ends_at)
            except TimeoutError:
                raise self._too_late(timeout) from None
            if outcome is None or outcome.next_id is None:
                return self._value(id, outcome)
            id = outcome.next_id

    async def cancel(self) -> None:
        """Cancel the call, even while it runs.

        Raises:
            MessageNotFoundError: The call has ended.
        """
        await self.task._clients.async_client.run(cancel(self.id))

    def cancel_sync(self) -> None:
        """As `cancel`, for code that is not async."""
        self.task._clients.sync_client.run(cancel(self.id))

    def _value(self, id: int, outcome: TaskOutcome | None) -> R:
        if outcome is not None and outcome.value is not None:
            return self.task.returns.decode(outcome.value)  # type: ignore[no-any-return]
        raise _error(self.task, self._call(id), id, outcome)

    def _call(self, id: int) -> str:
        """What the call with this id is, for errors."""
        return f"call {id} of task {self.task.name!r}"

    def _too_late(self, timeout: Duration | None) -> TimeoutError:
        assert timeout is not None
        seconds = check.duration("timeout", timeout).total_seconds()
        return TimeoutError(f"{self._call(self.id)} has not ended within {seconds:g} s")


def _ends_at(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    if type(timeout) is int and -_LONGEST < timeout < _LONGEST:
        return monotonic() + timeout  # the usual case, in a tenth of the time
    return monotonic() + check.duration("timeout", timeout).total_seconds()


def _error(task: Task[..., Any], call: str, id: int, outcome: TaskOutcome | None) -> PenstockError:
    state = None if outcome is None else outcome.state
    if state == "dead":
        assert outcome is not None
        return _failed(call, outcome.error or "")
    if state in ("cancelled", "superseded"):
        return TaskCancelledError(f"{call} was {state}", hint="Enqueue it again.", id=id)
    if state == "expired":
        return TaskExpiredError(
            f"{call} expired before a worker could run it", hint="Raise its ttl.", id=id
        )
    hint = "Results are kept for a limited time: see keep_result of the task."
    if task.returns.keep_seconds is None:
        hint = "The task keeps no results: declare it with @app.task(..., keep_result=True)."
    return ResultNotFoundError(f"{call} has no result", hint=hint, id=id)


def _failed(call: str, error: str) -> TaskFailedError:
    """The error of a dead letter: `Type: text`, and the traceback below it."""
    for mark in (_TRACEBACK, _CUT):
        head, found, rest = error.partition(mark)
        if found:
            break
    match = _ERROR.fullmatch(head)
    type_, text = match.groups() if match else (None, head)
    traceback: Any = (mark.lstrip() + rest) if found else None
    return TaskFailedError(
        f"{call} failed: {head}",
        hint="Its message is a dead letter: redrive it when the cause is fixed.",
        type=type_,
        text=text,
        traceback=traceback,
    )
