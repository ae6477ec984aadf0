"""Handlers for tasks: they decode the arguments, call the function, and keep what it returns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from penstock.commands.lease_row import PAYLOAD
from penstock.errors import TaskArgumentsError
from penstock.tasks.task import TASK_HEADER, Task
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Outcome, Reject, Snooze
from penstock.worker.process_child import completed
from penstock.worker.processes import ProcessLimits

logger = logging.getLogger("penstock.worker")

# A message that this worker cannot serve is offered again after this time.
LEAVE_SECONDS: Final = 5.0
# The same complaint is logged once in this time.
_COMPLAIN_SECONDS: Final = 60.0


def async_handler(task: Task[..., Any]) -> Callable[[Delivery], Any]:
    """Runs an async task on the event loop."""

    async def run(delivery: Delivery) -> Any:
        args, kwargs = _arguments(task, delivery)
        return completed(task, await task.function(*args, **kwargs))

    return run


def sync_handler(task: Task[..., Any]) -> Callable[[Delivery], Any]:
    """Runs a task that is not async. The runner calls it in a thread."""

    def run(delivery: Delivery) -> Any:
        args, kwargs = _arguments(task, delivery)
        return completed(task, task.function(*args, **kwargs))

    return run


def process_handler(task: Task[..., Any], limits: ProcessLimits) -> Callable[[Delivery], Any]:
    """Runs a task in a child process of the worker."""

    async def run(delivery: Delivery) -> Any:
        return await delivery._runner.processes.call(task, delivery._row[PAYLOAD], limits)

    return run


def _arguments(task: Task[..., Any], delivery: Delivery) -> tuple[list[Any], dict[str, Any]]:
    try:
        return task.arguments.decode(delivery._row[PAYLOAD])
    except TaskArgumentsError as error:
        # Another attempt with the same code would fail in the same way.
        raise Reject(error) from None


class UnknownTasks:
    """Leaves messages of tasks that this worker does not know to other workers, and says so."""

    def __init__(self) -> None:
        self._complain_at: dict[str, float] = {}

    async def __call__(self, delivery: Delivery) -> Outcome:
        name = delivery.headers.get(TASK_HEADER)
        wanted = "a handler for plain messages" if name is None else f"the task {name!r:.200}"
        now = monotonic()
        if self._complain_at.get(wanted, 0.0) <= now:
            if len(self._complain_at) > 1000:  # names come from outside
                self._complain_at.clear()
            self._complain_at[wanted] = now + _COMPLAIN_SECONDS
            logger.warning(
                "this worker lacks %s of queue %r: message %d is left to other workers",
                wanted,
                delivery.queue,
                delivery.id,
                extra={"queue": delivery.queue, "id": delivery.id, "attempt": delivery.attempt},
            )
        return Snooze(LEAVE_SECONDS)
