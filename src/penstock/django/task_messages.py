"""Calls of Django's Tasks as messages, and messages as TaskResults."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from traceback import format_exception
from typing import Any, Final

from django.apps import apps
from django.core.exceptions import SuspiciousOperation
from django.utils import timezone

from penstock.django.task_api import (
    AnyResult,
    AnyTask,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)
from penstock.model.message import Message
from penstock.tasks.task import TASK_HEADER
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import MAX_ERROR

HEADER: Final = "django-task"
"""Present in the messages of Django's Tasks. TASK_HEADER has the path of the function."""

_STATUS: Final = {
    "scheduled": TaskResultStatus.READY,
    "ready": TaskResultStatus.READY,
    "leased": TaskResultStatus.RUNNING,
    "done": TaskResultStatus.SUCCESSFUL,
}
_TIMES: Final = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")
# An error as `error_text` writes it.
_ERROR: Final = re.compile(r"([^\W\d]\w*(?:\.\w+)+): .*?\n\n(.*)", re.DOTALL)
_OTHER_ERROR: Final = "penstock.errors.TaskFailedError"


def message_priority(priority: int) -> int:
    """Of Django's -100 to 100, one of the 19 priorities of messages. Only 0 becomes 0."""
    steps = -(-abs(priority) * 9 // 100)
    return steps if priority >= 0 else -steps


def headers(task: AnyTask) -> dict[str, Any]:
    """The fields that the payload does not contain."""
    run_after = task.run_after
    return {
        TASK_HEADER: task.module_path,
        HEADER: {
            "backend": task.backend,
            "priority": task.priority,
            "run_after": None if run_after is None else run_after.isoformat(),
        },
    }


def find_task(path: object) -> AnyTask | None:
    """The task at a path, or None if there is none. SuspiciousOperation if it is another object.

    Paths come from the database, so only modules of installed apps are imported.
    """
    module, _, name = str(path).rpartition(".")
    if module not in sys.modules:
        if apps.get_containing_app_config(module) is None:
            return None
        try:
            import_module(module)
        except ImportError:
            return None
    found = getattr(sys.modules[module], name, None)
    if found is not None and not isinstance(found, Task):
        raise SuspiciousOperation(f"{path} is not a Task")
    return found


def result_of(message: Message, value: Any) -> AnyResult | None:
    """The TaskResult of a message, or None if this process does not know its task."""
    sent = message.headers.get(HEADER)
    if not isinstance(sent, Mapping) or not isinstance(message.payload, Mapping):
        return None
    task = _task_of(message.id, message.headers.get(TASK_HEADER))
    if task is None:
        return None
    queue = (message.original_queue or message.queue).removesuffix(".dlq")
    result = TaskResult(
        task=_as_enqueued(task, queue, sent),
        id=str(message.id),
        status=_STATUS.get(message.state, TaskResultStatus.FAILED),
        enqueued_at=local(message.enqueued_at),
        started_at=local(message.first_claimed_at),
        finished_at=local(message.finished_at or message.dead_at),
        last_attempted_at=local(message.claimed_at),
        args=list(message.payload.get("args", ())),
        kwargs=dict(message.payload.get("kwargs", {})),
        backend=str(sent.get("backend")),
        errors=_errors(message),
        worker_ids=_worker_ids(message),
    )
    object.__setattr__(result, "_return_value", value)
    return result


def to_json(result: AnyResult, delivery: Delivery, value: Any) -> str:
    """A successful result, for a queue without history. `result_from_json` reads it."""
    fields = {
        "path": delivery.headers.get(TASK_HEADER),
        "sent": delivery.headers.get(HEADER),
        "queue": delivery.queue,
        "args": result.args,
        "kwargs": result.kwargs,
        "worker_ids": result.worker_ids,
        "errors": [[each.exception_class_path, each.traceback] for each in result.errors],
        **{name: getattr(result, name).isoformat() for name in _TIMES},
    }
    return json.dumps({"return_value": value, HEADER: fields})


def result_from_json(id: int, text: str) -> AnyResult | None:
    """The TaskResult that `to_json` wrote, or None if this is another value."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get(HEADER), dict):
        return None
    fields = found[HEADER]
    task = _task_of(id, fields["path"])
    if task is None:
        return None
    result = TaskResult(
        task=_as_enqueued(task, fields["queue"].removesuffix(".dlq"), fields["sent"]),
        id=str(id),
        status=TaskResultStatus.SUCCESSFUL,
        args=fields["args"],
        kwargs=fields["kwargs"],
        backend=str(fields["sent"].get("backend")),
        errors=[TaskError(exception_class_path=path, traceback=t) for path, t in fields["errors"]],
        worker_ids=fields["worker_ids"],
        **{name: datetime.fromisoformat(fields[name]) for name in _TIMES},
    )
    object.__setattr__(result, "_return_value", found["return_value"])
    return result


def local(moment: datetime | None) -> datetime | None:
    """A time as the project has them: without a zone unless USE_TZ is true."""
    from django.conf import settings

    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment)


def error_text(error: BaseException) -> str:
    """The path of its class, its text and its traceback, cut to what a message keeps."""
    kind = type(error)
    head = f"{kind.__module__}.{kind.__qualname__}: {error}"[:1000].replace("\n\n", "\n")
    lines = "".join(format_exception(error))
    room = MAX_ERROR - len(head) - len("\n\n")
    return f"{head}\n\n{lines[-room:]}"


def _task_of(id: int, path: object) -> AnyTask | None:
    try:
        return find_task(path)
    except SuspiciousOperation:
        raise SuspiciousOperation(f"Task {id} does not point to a Task ({path})") from None


def _as_enqueued(task: AnyTask, queue: str, sent: Mapping[str, Any]) -> AnyTask:
    """The task as it was when it was enqueued, or its current definition if that is not valid."""
    run_after = sent.get("run_after")
    try:
        return task.using(
            priority=sent.get("priority"),
            queue_name=queue,
            run_after=None if run_after is None else datetime.fromisoformat(run_after),
            backend=sent.get("backend"),
        )
    except (InvalidTask, TypeError, ValueError):
        return task


def _errors(message: Message) -> list[TaskError]:
    texts = [each.error for each in message.attempts if each.error is not None]
    ended = _STATUS.get(message.state) is None
    if ended and message.last_error is not None and message.last_error not in texts[-1:]:
        texts.append(message.last_error)
    if ended and not texts:
        texts.append(f"the message is {message.state}")
    return [_task_error(text) for text in texts]


def _task_error(text: str) -> TaskError:
    match = _ERROR.fullmatch(text)
    if match is None:
        return TaskError(exception_class_path=_OTHER_ERROR, traceback=text)
    return TaskError(exception_class_path=match[1], traceback=match[2])


def _worker_ids(message: Message) -> list[str]:
    """One for each attempt that counts."""
    names = [each.worker or "" for each in message.attempts if each.attempt <= message.attempt]
    names = names[-message.attempt :] if message.attempt else []
    return names + [message.worker or ""] * (message.attempt - len(names))
