"""Services of the control plane, queues on them, and the tasks that carry them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar, utc_row
from penstock.commands.payload import decode_json, encode_json
from penstock.model.queue import Queue
from penstock.model.service import ServiceCheck, TaskKind, TaskOrder

_REGISTER: Final = call(
    "register_service",
    "register_service::text",
    name="text",
    dsn="text",
    secret="text",
    password_file="text",
    created_by="text",
)
_SET_ADDRESS: Final = call(
    "set_service_address", service="text", dsn="text", secret="text", password_file="text"
)
_CLAIM_CHECKS: Final = call(
    "claim_service_checks",
    "id::text, name, dsn, secret, password_file, address_version, asked_at",
    for_seconds="integer",
    service="text",
)
_REPORT: Final = call(
    "report_service",
    service_id="uuid",
    address_version="integer",
    status="jsonb",
    error_message="text",
    check_seconds="numeric",
    wait_seconds="integer",
)
_RETRY_QUEUE: Final = call(
    "retry_service_queue", "retry_service_queue::text", service="text", name="text",
    created_by="text",
)  # fmt: skip
_FORGET_QUEUE: Final = call(
    "forget_service_queue", "forget_service_queue::text", service="text", name="text",
    removed_by="text",
)  # fmt: skip
_CANCEL_TASK: Final = call("cancel_service_task", service="text", task="uuid", cancelled_by="text")
_RETRY_TASK: Final = call("retry_service_task", service="text", task="uuid")
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
    "adopt_queues_v2",
    service="text",
    database_name="text",
    names="text[]",
    visibility_timeouts="integer[]",
    max_attempts="integer[]",
    dlq_enabled="boolean[]",
    asked_at="timestamptz",
)
_BEGIN: Final = call(
    "begin_task_v2",
    "kind, name, database_name, visibility_timeout_seconds, max_attempts, dlq_enabled, "
    "request::text, failures, service_id::text, service, dsn, secret, password_file, "
    "address_version",
    task="uuid",
    delivery="integer",
)
_FINISH: Final = call("finish_task", task="uuid", result="jsonb", error_message="text")
_FAILURE: Final = call("note_task_failure", task="uuid", error_message="text")
_APPLY: Final = call(
    "apply_enqueue", task="uuid", queue="text", payloads="jsonb[]", delays="interval[]"
)


def add_service(
    name: str,
    dsn: str,
    *,
    secret: str | None = None,
    password_file: str | None = None,
    created_by: str | None = None,
) -> Command[str]:
    """Register a PostgreSQL. Returns its id. `secret` is its password, encrypted."""
    params = {
        "name": check.text("name", name),
        "dsn": check.text("dsn", dsn),
        "secret": secret,
        "password_file": password_file,
        "created_by": check.optional_text("created_by", created_by),
    }
    return Command(_REGISTER, params, scalar)


def set_service_address(
    service: str, dsn: str, *, secret: str | None = None, password_file: str | None = None
) -> Command[None]:
    """Change the address and the credentials of a service. Its queues stay."""
    params = {
        "service": check.text("service", service),
        "dsn": check.text("dsn", dsn),
        "secret": secret,
        "password_file": password_file,
    }
    return Command(_SET_ADDRESS, params, nothing)


def claim_service_checks(
    for_seconds: int, service: str | None = None
) -> Command[list[ServiceCheck]]:
    """The services that are to be checked now, or one of them. No other server gets them for some
    seconds."""

    def decode(rows: Rows) -> list[ServiceCheck]:
        return [ServiceCheck(*utc_row(row)) for row in rows]

    return Command(_CLAIM_CHECKS, {"for_seconds": for_seconds, "service": service}, decode)


def report_service(
    service_id: str,
    address_version: int,
    status: Mapping[str, Any] | None,
    error_message: str | None,
    *,
    check_seconds: float,
    wait_seconds: int | None,
) -> Command[int]:
    """Store the result of a check. Returns the number of tasks that continue or have failed."""
    params = {
        "service_id": service_id,
        "address_version": address_version,
        "status": None if status is None else encode_json(dict(status), "status"),
        "error_message": check.note("error_message", error_message),
        "check_seconds": check_seconds,
        "wait_seconds": wait_seconds,
    }
    return Command(_REPORT, params, scalar)


def retry_service_queue(service: str, name: str, *, created_by: str) -> Command[str]:
    """Try again to create or to remove a Failed queue. Returns the id of its record."""
    params = {"service": service, "name": check.text("name", name), "created_by": created_by}
    return Command(_RETRY_QUEUE, params, scalar)


def forget_service_queue(service: str, name: str, *, removed_by: str) -> Command[str]:
    """Remove the record of a queue, but not the queue itself. Returns the id of the record."""
    params = {"service": service, "name": check.text("name", name), "removed_by": removed_by}
    return Command(_FORGET_QUEUE, params, scalar)


def cancel_service_task(service: str, task: str, *, cancelled_by: str) -> Command[None]:
    """Cancel a task that has not started."""
    params = {"service": service, "task": task, "cancelled_by": cancelled_by}
    return Command(_CANCEL_TASK, params, nothing)


def retry_service_task(service: str, task: str) -> Command[None]:
    """Carry out a failed or cancelled task again."""
    return Command(_RETRY_TASK, {"service": service, "task": task}, nothing)


def remove_service(service: str) -> Command[None]:
    """Remove a service and its queues, by its name or id, from the registry. The database stays."""
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
    """Request a queue. The result is the id of its record, which is Pending."""
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
    """Request the removal of a queue. Returns the id of its record, which is Deprovisioning."""
    params = {
        "service": check.text("service", service),
        "name": check.text("name", name),
        "created_by": created_by,
    }
    return Command(_REQUEST_REMOVAL, params, scalar)


def request_task(
    service: str, name: str, kind: TaskKind, request: str | None, *, created_by: str
) -> Command[str]:
    """Request a task on an Active queue. The result is its id. The request is JSON text."""
    params = {
        "service": check.text("service", service),
        "name": check.text("name", name),
        "kind": kind,
        "request": request,
        "created_by": created_by,
    }
    return Command(_REQUEST_TASK, params, scalar)


def adopt_queues(
    service: str, database_name: str, queues: Sequence[Queue], asked_at: datetime
) -> Command[None]:
    """Record the queues that a service has."""
    params = {
        "service": service,
        "database_name": database_name,
        "names": [queue.name for queue in queues],
        "visibility_timeouts": [queue.settings.lease_seconds for queue in queues],
        "max_attempts": [queue.settings.max_attempts for queue in queues],
        "dlq_enabled": [queue.settings.dlq_enabled for queue in queues],
        "asked_at": asked_at,
    }
    return Command(_ADOPT, params, nothing)


def begin_task(task: str, delivery: int | None = None) -> Command[TaskOrder | None]:
    """Start a task. None if it is finished, waits for its service, or has a newer message."""

    def decode(rows: Rows) -> TaskOrder | None:
        if not rows:
            return None
        fields: list[Any] = list(rows[0])
        fields[6] = decode_json(fields[6])
        return TaskOrder(*fields)

    return Command(_BEGIN, {"task": task, "delivery": delivery}, decode)


def finish_task(
    task: str, result: Mapping[str, Any] | None, error_message: str | None = None
) -> Command[None]:
    """Store the end of a task: its result, or its error."""
    params = {
        "task": task,
        "result": None if result is None else encode_json(dict(result), "result"),
        "error_message": check.note("error_message", error_message),
    }
    return Command(_FINISH, params, nothing)


def note_task_failure(task: str, error_message: str) -> Command[None]:
    """Store a temporary failure."""
    params = {"task": task, "error_message": check.note("error_message", error_message)}
    return Command(_FAILURE, params, nothing)


def apply_enqueue(
    task: str, queue: str, payloads: Sequence[str], delays: Sequence[int]
) -> Command[list[int]]:
    """On the service: enqueue, once for each task. Returns the ids. Payloads are JSON texts."""
    params = {
        "task": task,
        "queue": queue,
        "payloads": list(payloads),
        "delays": [timedelta(seconds=delay) for delay in delays] if any(delays) else None,
    }
    return Command(_APPLY, params, lambda rows: list(scalar(rows)))
