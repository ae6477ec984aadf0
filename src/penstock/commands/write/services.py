"""Services of the control plane, queues on them, and the tasks that carry them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar
from penstock.commands.payload import decode_json, encode_json
from penstock.model.queue import Queue
from penstock.model.service import TaskKind, TaskOrder

_ADD: Final = call("add_service", "add_service::text", name="text", dsn="text", created_by="text")
_REMOVE: Final = call("remove_service", service="text")
_REQUEST_QUEUE: Final = call(
    "request_queue",
    "request_queue::text",
    service="text",
    name="text",
    database_name="text",
    visibility_timeout_seconds="integer",
    max_attempts="integer",
    dlq_enabled="boolean",
    created_by="text",
)
_REQUEST_REMOVAL: Final = call(
    "request_removal", "request_removal::text", service="text", name="text", created_by="text"
)
_REQUEST_TASK: Final = call(
    "request_task",
    "request_task::text",
    service="text",
    name="text",
    kind="text",
    request="jsonb",
    created_by="text",
)
_ADOPT: Final = call(
    "adopt_queues",
    service="text",
    database_name="text",
    names="text[]",
    visibility_timeouts="integer[]",
    max_attempts="integer[]",
    dlq_enabled="boolean[]",
)
_BEGIN: Final = call(
    "begin_task",
    "kind, name, service, dsn, database_name, visibility_timeout_seconds, max_attempts, "
    "dlq_enabled, request::text, failures",
    task="uuid",
)
_FINISH: Final = call("finish_task", task="uuid", result="jsonb", error_message="text")
_FAILURE: Final = call("note_task_failure", task="uuid", error_message="text")
_APPLY: Final = call(
    "apply_enqueue", task="uuid", queue="text", payloads="jsonb[]", delays="interval[]"
)


def add_service(name: str, dsn: str, *, created_by: str | None = None) -> Command[str]:
    """Register a PostgreSQL; its id."""
    params = {
        "name": check.text("name", name),
        "dsn": check.text("dsn", dsn),
        "created_by": check.optional_text("created_by", created_by),
    }
    return Command(_ADD, params, scalar)


def remove_service(service: str) -> Command[None]:
    """Forget a service and its queues, by its name or id; what is on it stays."""
    return Command(_REMOVE, {"service": check.text("service", service)}, nothing)


def request_queue(
    service: str,
    name: str,
    database_name: str,
    *,
    visibility_timeout_seconds: int,
    max_attempts: int,
    dlq_enabled: bool,
    created_by: str,
) -> Command[str]:
    """Have a queue made; the id of its record, which is Pending."""
    params = {
        "service": check.text("service", service),
        "name": check.text("name", name),
        "database_name": check.text("database_name", database_name),
        "visibility_timeout_seconds": visibility_timeout_seconds,
        "max_attempts": max_attempts,
        "dlq_enabled": dlq_enabled,
        "created_by": created_by,
    }
    return Command(_REQUEST_QUEUE, params, scalar)


def request_removal(service: str, name: str, *, created_by: str) -> Command[str]:
    """Have a queue removed; the id of its record, which is Deprovisioning."""
    params = {
        "service": check.text("service", service),
        "name": check.text("name", name),
        "created_by": created_by,
    }
    return Command(_REQUEST_REMOVAL, params, scalar)


def request_task(
    service: str, name: str, kind: TaskKind, request: str | None, *, created_by: str
) -> Command[str]:
    """Have something done on an Active queue; the task's id. The request is JSON text."""
    params = {
        "service": check.text("service", service),
        "name": check.text("name", name),
        "kind": kind,
        "request": request,
        "created_by": created_by,
    }
    return Command(_REQUEST_TASK, params, scalar)


def adopt_queues(service: str, database_name: str, queues: Sequence[Queue]) -> Command[None]:
    """Put on record what is on a service, however it came there."""
    params = {
        "service": service,
        "database_name": database_name,
        "names": [queue.name for queue in queues],
        "visibility_timeouts": [queue.settings.lease_seconds for queue in queues],
        "max_attempts": [queue.settings.max_attempts for queue in queues],
        "dlq_enabled": [queue.settings.dlq_enabled for queue in queues],
    }
    return Command(_ADOPT, params, nothing)


def begin_task(task: str) -> Command[TaskOrder | None]:
    """Take a task on; None if it was finished before."""

    def decode(rows: Rows) -> TaskOrder | None:
        if not rows:
            return None
        fields: list[Any] = list(rows[0])
        fields[-2] = decode_json(fields[-2])
        return TaskOrder(*fields)

    return Command(_BEGIN, {"task": task}, decode)


def finish_task(
    task: str, result: Mapping[str, Any] | None, error_message: str | None = None
) -> Command[None]:
    """The end of a task: its result, or its error."""
    params = {
        "task": task,
        "result": None if result is None else encode_json(dict(result), "result"),
        "error_message": check.note("error_message", error_message),
    }
    return Command(_FINISH, params, nothing)


def note_task_failure(task: str, error_message: str) -> Command[None]:
    """A failure that may pass."""
    params = {"task": task, "error_message": check.note("error_message", error_message)}
    return Command(_FAILURE, params, nothing)


def apply_enqueue(
    task: str, queue: str, payloads: Sequence[str], delays: Sequence[int]
) -> Command[list[int]]:
    """On the service: enqueue, once for each task; the ids. Payloads are JSON texts."""
    params = {
        "task": task,
        "queue": queue,
        "payloads": list(payloads),
        "delays": [timedelta(seconds=delay) for delay in delays] if any(delays) else None,
    }
    return Command(_APPLY, params, lambda rows: list(scalar(rows)))
