"""A call of a task that is not enqueued yet: a part of a chain, a group or a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.model.message import NewMessage

if TYPE_CHECKING:
    from penstock.tasks.clients import AppClients
    from penstock.tasks.task import Task

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A task and its arguments. `task.s(...)` and `task.si(...)` make one.

    `takes_previous`: in a chain, the result of the step before becomes the first argument.
    """

    task: Task[..., R]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    takes_previous: bool

    @property
    def clients(self) -> AppClients:
        return self.task._clients

    @property
    def queue(self) -> str:
        return self.task.queue

    def message(self) -> NewMessage:
        """The message of the call. TaskArgumentsError if its arguments do not fit the task."""
        return self.task.message(*self.args, **self.kwargs)

    def json_message(self) -> dict[str, Any]:
        """The same as the parameters of `penstock.enqueue`, in JSON."""
        return self.task._json_message(self.args, dict(self.kwargs))
