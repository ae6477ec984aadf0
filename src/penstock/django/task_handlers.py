"""Runs Django's Tasks in a worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import sync_to_async
from django.core.exceptions import SuspiciousOperation
from django.db import connections
from django.utils import timezone

from penstock.model.message import Message
from penstock.tasks.returns import MAX_BYTES
from penstock.tasks.task import TASK_HEADER
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Function, Handler, QueueHandlers
from penstock.worker.outcomes import Complete, Outcome, Reject, Retry
from penstock.worker.retry import RetryPolicy

if TYPE_CHECKING:
    from penstock.django.task_api import AnyResult

logger = logging.getLogger("penstock.worker")

# Names among the tasks of a queue. The name of a Task has no space.
_SYNC: Final = "django sync"
_ASYNC: Final = "django async"


class DjangoQueueHandlers(QueueHandlers):
    """The handlers of a queue, which may also carry calls of Django's Tasks."""

    def __init__(self, queue: str, in_thread: Callable[[Function], Function]) -> None:
        super().__init__(queue)
        self._in_thread = in_thread

    def on_thread_end(self) -> None:
        connections.close_all()

    def serve_django_tasks(self) -> None:
        self.tasks[_SYNC] = self._handler(self._in_thread(run_task), is_async=False)
        self.tasks[_ASYNC] = self._handler(run_async_task, is_async=True)

    def find(self, delivery: Delivery) -> Handler:
        from penstock.django.task_messages import HEADER, find_task

        if _SYNC not in self.tasks or HEADER not in delivery.headers:
            return super().find(delivery)
        try:
            task = find_task(delivery.headers.get(TASK_HEADER))
        except SuspiciousOperation:
            return self.tasks[_ASYNC]  # which rejects it
        if task is None:
            return self._unknown
        return self.tasks[_ASYNC if iscoroutinefunction(task.func) else _SYNC]

    def _handler(self, function: Function, *, is_async: bool) -> Handler:
        return Handler(
            queue=self.queue,
            function=function,
            is_async=is_async,
            concurrency=None,
            timeout=None,
            lease_seconds=None,
            retry=RetryPolicy(),
            keeps_result=True,
        )


def run_task(delivery: Delivery) -> Outcome:
    """Runs a task in a thread."""
    run = _Run(delivery)
    try:
        value = run.result.task.call(*run.args, **run.result.kwargs)
    except Outcome:
        raise
    except BaseException as error:
        return run.failed(error)
    return run.succeeded(value)


async def run_async_task(delivery: Delivery) -> Outcome:
    """Runs an async task on the event loop."""
    # Receivers of the signals may use the ORM.
    run = await sync_to_async(_Run)(delivery)
    try:
        value = await run.result.task.acall(*run.args, **run.result.kwargs)
    except (Outcome, asyncio.CancelledError):
        raise
    except BaseException as error:
        return await sync_to_async(run.failed)(error)
    return await sync_to_async(run.succeeded)(value)


class _Run:
    """One attempt at a task."""

    def __init__(self, delivery: Delivery) -> None:
        from penstock.django.task_api import TaskContext, task_started

        self._delivery = delivery
        self._is_last = delivery.attempt >= delivery.max_attempts
        self.result = _started(delivery)
        context = (TaskContext(task_result=self.result),) if self.result.task.takes_context else ()
        self.args: list[Any] = [*context, *self.result.args]
        task_started.send(self._backend, task_result=self.result)

    @property
    def _backend(self) -> type[Any]:
        return type(self.result.task.get_backend())

    def succeeded(self, value: Any) -> Outcome:
        from penstock.django.task_api import TaskResultStatus, normalize_json
        from penstock.django.task_messages import to_json

        backend: Any = self.result.task.get_backend()
        try:
            stored = normalize_json(value)
            text = json.dumps(stored)
        except (TypeError, ValueError) as error:
            # Another attempt would repeat the work and return the same value.
            return self._ended(error, final=True)
        object.__setattr__(self.result, "_return_value", stored)
        self._finish(TaskResultStatus.SUCCESSFUL)
        if self._delivery.leaves_no_history:
            with_call = to_json(self.result, self._delivery, stored)
            # A result that is too large is refused. This one has the arguments, too.
            text = with_call if len(with_call) <= MAX_BYTES else text
        return Complete(text, backend.result_ttl_seconds)

    def failed(self, error: BaseException) -> Outcome:
        return self._ended(error, final=self._is_last)

    def _ended(self, error: BaseException, *, final: bool) -> Outcome:
        from penstock.django.task_api import TaskError, TaskResultStatus
        from penstock.django.task_messages import error_text

        text = error_text(error)
        if not final:
            logger.warning(
                "task %s failed: %s: %s",
                self.result.task.module_path,
                type(error).__name__,
                error,
                exc_info=error,
            )
            return Retry(error=text)
        path, _, _ = text.partition(": ")
        _, _, traceback = text.partition("\n\n")
        self.result.errors.append(TaskError(exception_class_path=path, traceback=traceback))
        self._finish(TaskResultStatus.FAILED)
        return Reject(text)

    def _finish(self, status: Any) -> None:
        from penstock.django.task_api import task_finished

        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", timezone.now())
        task_finished.send(self._backend, task_result=self.result)


def _started(delivery: Delivery) -> AnyResult:
    """The current result. The database is queried only if there were earlier attempts."""
    from penstock.django.database import client
    from penstock.django.task_messages import result_of

    first = delivery.attempt == 1
    message = _first_attempt(delivery) if first else client().message(delivery.id)
    try:
        result = result_of(message, None)
    except SuspiciousOperation as error:
        raise Reject(error) from None
    if result is None:
        raise Reject(f"message {delivery.id} is not a call of a task")
    return result


def _first_attempt(delivery: Delivery) -> Message:
    now = datetime.now(UTC)
    return Message(
        id=delivery.id,
        queue=delivery.queue,
        state="leased",
        payload=delivery.payload,
        headers=delivery.headers,
        key=delivery.key,
        priority=delivery.priority,
        group=delivery.group,
        attempt=delivery.attempt,
        max_attempts=delivery.max_attempts,
        enqueued_at=delivery.enqueued_at,
        visible_at=None,
        expires_at=delivery.expires_at,
        first_claimed_at=now,
        claimed_at=now,
        lease_until=None,
        finished_at=None,
        dead_at=None,
        worker=delivery.client.worker,
        last_error=None,
        original_queue=delivery.original_queue,
    )
