"""Services of the control plane, their queues and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, scalar, utc, utc_row
from penstock.commands.payload import decode_json
from penstock.errors import (
    QueueNotFoundError,
    ServiceNotFoundError,
    TaskNotFoundError,
)
from penstock.model.service import (
    Service,
    ServiceQueue,
    ServiceTask,
    ServiceTaskRow,
    TaskKind,
    TaskStatus,
)
from penstock.sql.loader import load_query


def services() -> Command[list[Service]]:
    """The services, in the order in which they were added."""
    return Command(load_query("read/services"), {"service": None}, _services)


def service(name: str) -> Command[Service]:
    """One service, by its name or id."""

    def decode(rows: Rows) -> Service:
        if not rows:
            raise ServiceNotFoundError(
                f"service {name!r:.200} does not exist",
                hint="Add it with `penstock service add` or POST /managed-services.",
                service=name,
            )
        return _services(rows)[0]

    return Command(load_query("read/services"), {"service": check.text("service", name)}, decode)


def clock() -> Command[datetime]:
    """The time of the database."""
    return Command("select clock_timestamp()", {}, scalar)


def service_queues(service: str) -> Command[list[ServiceQueue]]:
    """The queues of a service, by its name or id."""
    return Command(load_query("read/service_queues"), _queue_params(service), _service_queues)


def service_queue(
    service: str, name: str | None = None, *, id: str | None = None
) -> Command[ServiceQueue]:
    """One queue of a service: the current one with this name, or any by its id."""

    def decode(rows: Rows) -> ServiceQueue:
        if not rows:
            raise QueueNotFoundError(
                f"queue {name!r:.200} does not exist on service {service!r:.200}",
                hint="Create it with POST /managed-services/{service}/queues.",
                queue=name,
            )
        return _service_queues(rows)[0]

    return Command(load_query("read/service_queues"), _queue_params(service, name, id), decode)


def service_task(service: str, queue: str, kind: TaskKind, task: str) -> Command[ServiceTask]:
    """The state of a task of a queue."""

    def decode(rows: Rows) -> ServiceTask:
        if not rows:
            raise _unknown_task(task)
        id, kind, status, result, error_message, waits_for = rows[0]
        return ServiceTask(id, kind, status, decode_json(result), error_message, waits_for)

    params = {
        "service": check.text("service", service),
        "name": check.text("queue", queue),
        "kind": kind,
        "task": task_id(task),
    }
    return Command(load_query("read/service_task"), params, decode)


def service_tasks(
    service: str,
    *,
    task: str | None = None,
    queue: str | None = None,
    queues: Sequence[str] | None = None,
    status: TaskStatus | None = None,
    before: str | None = None,
    limit: int = 100,
) -> Command[list[ServiceTaskRow]]:
    """The tasks of a service, the latest first. `queues` limits them to some queues."""

    def decode(rows: Rows) -> list[ServiceTaskRow]:
        return [ServiceTaskRow(*_with_json(row, 4)) for row in rows]

    params = {
        "service": check.text("service", service),
        "task": None if task is None else task_id(task),
        "queue": check.optional_text("queue", queue),
        "queues": None if queues is None else list(queues),
        "status": status,
        "before": None if before is None else task_id(before),
        "limit": limit,
    }
    return Command(load_query("read/service_tasks"), params, decode)


def task_id(task: str) -> str:
    """The id of a task. TaskNotFoundError if it cannot be one."""
    try:
        return str(UUID(task))
    except ValueError:
        raise _unknown_task(task) from None


def _unknown_task(task: str) -> TaskNotFoundError:
    return TaskNotFoundError(
        f"task {task!r:.200} does not exist here",
        hint="Tasks are deleted a week after they have finished.",
        task=task[:200],
    )


def _queue_params(
    service: str, name: str | None = None, id: str | None = None
) -> dict[str, str | None]:
    return {
        "service": check.text("service", service),
        "name": check.optional_text("name", name),
        "id": id,
    }


def _services(rows: Rows) -> list[Service]:
    return [Service(*_with_json(row, -1)) for row in rows]


def _service_queues(rows: Rows) -> list[ServiceQueue]:
    return [ServiceQueue(*_row(row)) for row in rows]


def _row(row: Sequence[Any]) -> list[Any]:
    *most, created_at, updated_at = row
    return [*most, utc(created_at), utc(updated_at)]


def _with_json(row: Sequence[Any], place: int) -> list[Any]:
    """The values of a row, with its times in UTC, and the JSON at one place decoded."""
    values = utc_row(row)
    values[place] = decode_json(values[place])
    return values
