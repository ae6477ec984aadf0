"""Handlers for tasks: they decode the arguments, call the function, and store its result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from penstock.commands import write
from penstock.commands.command import Command
from penstock.commands.lease_row import PAYLOAD
from penstock.commands.write.results import Completion, complete_many
from penstock.errors import LeaseLostError, TaskArgumentsError
from penstock.tasks.chain import next_step
from penstock.tasks.task import TASK_HEADER, AsyncTask, Task
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Complete, Outcome, Reject, Snooze
from penstock.worker.process_child import Run, completed
from penstock.worker.processes import ProcessLimits

logger = logging.getLogger("penstock.worker")

# The time after which a message that this worker cannot serve is offered again.
LEAVE_SECONDS: Final = 5.0
# The same warning is logged once in this time.
_COMPLAIN_SECONDS: Final = 60.0


def async_handler(task: Task[..., Any]) -> Callable[[Delivery], Any]:
    """Runs an async task on the event loop."""

    async def run(delivery: Delivery) -> Any:
        args, kwargs = _arguments(task, delivery)
        return outcome_of(task, delivery, await task.function(*args, **kwargs))

    return run


def sync_handler(task: Task[..., Any]) -> Callable[[Delivery], Any]:
    """Runs a task that is not async. The runner calls it in a thread."""

    def run(delivery: Delivery) -> Any:
        args, kwargs = _arguments(task, delivery)
        return outcome_of(task, delivery, task.function(*args, **kwargs))

    return run


def process_handler(task: Task[..., Any], limits: ProcessLimits) -> Callable[[Delivery], Any]:
    """Runs a task in a child process of the worker, or here if the runner has no processes."""
    call_here = async_handler(task) if isinstance(task, AsyncTask) else sync_handler(task)

    async def run(delivery: Delivery) -> Any:
        runner = delivery._runner
        if runner.processes is None:
            if isinstance(task, AsyncTask):
                return await call_here(delivery)
            assert runner.threads is not None
            return await runner.threads.call(call_here, delivery)
        run = Run(delivery.queue, tuple(delivery._row), always_encode=delivery._is_in_chain)
        # The time of the task begins when it gets a process.
        runner.stop_timeout(delivery)
        async with runner.processes.slot(task, limits):
            runner.start_timeout(delivery)
            answer = await runner.processes.call(task, run, limits, runner.reports)
        delivery._acked_elsewhere = answer.acked_elsewhere
        if answer.error is not None:
            answer.error.add_note(f"In the process of the task:\n{answer.traceback}")
            raise answer.error
        delivery._enqueues.extend(answer.enqueues)
        return _continued(delivery, answer.outcome)

    return run


def outcome_of(task: Task[..., Any], delivery: Delivery, value: Any) -> Outcome | None:
    """The outcome of a message whose task returned this value, or None for a bare ack."""
    if not delivery._is_in_chain:
        return completed(task, value)
    return _continued(delivery, completed(task, value, always=True))


def ack_command(delivery: Delivery, task: Task[..., Any] | None, result: Any) -> Command[None]:
    """Acks a message in a transaction of its handler, with its result and the next step."""
    outcome = None if task is None else outcome_of(task, delivery, result)
    complete = outcome if isinstance(outcome, Complete) else Complete()
    enqueues = [*complete.enqueues, *delivery._enqueues]
    if not enqueues and complete.keep_seconds is None:
        return write.ack((delivery.id, delivery.token))
    completion = Completion(
        delivery.queue, delivery.id, delivery.token, complete.value, complete.keep_seconds, enqueues
    )

    def decode(settled: set[int]) -> None:
        if delivery.id not in settled:
            raise LeaseLostError(
                f"the lease on message {delivery.id} is lost",
                hint="Let the error roll the transaction back: another worker has the message.",
                id=delivery.id,
            )

    return complete_many([completion]).then(decode)


def _continued(delivery: Delivery, outcome: Outcome | None) -> Outcome | None:
    """The outcome with the next step of the chain, if there is one."""
    if not isinstance(outcome, Complete):
        return outcome
    try:
        step = next_step(delivery.headers, outcome.value)
    except TaskArgumentsError as error:
        raise Reject(error) from None
    if step is None:
        return outcome
    following = Complete(None, step.keep_seconds)
    following.enqueues = [{**step.message, "continues": True}]
    return following


def _arguments(task: Task[..., Any], delivery: Delivery) -> tuple[list[Any], dict[str, Any]]:
    try:
        return task.arguments.decode(delivery._row[PAYLOAD])
    except TaskArgumentsError as error:
        # Another attempt with the same code would fail in the same way.
        raise Reject(error) from None


class UnknownTasks:
    """Leaves messages of unknown tasks to other workers, and logs a warning."""

    def __init__(self) -> None:
        self._complain_at: dict[str, float] = {}

    async def __call__(self, delivery: Delivery) -> Outcome:
        name = delivery.headers.get(TASK_HEADER)
        wanted = "a handler for plain messages" if name is None else f"the task {name!r:.200}"
        now = monotonic()
        if self._complain_at.get(wanted, 0.0) <= now:
            if len(self._complain_at) > 1000:  # names in messages are untrusted
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
