"""Services of the control plane, their queues and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, utc
from penstock.commands.payload import decode_json
from penstock.errors import (
    QueueNotFoundError,
    ServiceNotFoundError,
    TaskNotFoundError,
)
from penstock.model.service import Service, ServiceQueue, ServiceTask, TaskKind
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
                hint="Add it with `penstock service add NAME DSN`.",
                service=name,
            )
        return _services(rows)[0]

    return Command(load_query("read/services"), {"service": check.text("service", name)}, decode)


def service_queues(service: str) -> Command[list[ServiceQueue]]:
    """The queues of a service, by its name or id."""
    return Command(load_query("read/service_queues"), _queue_params(service), _service_queues)


def service_queue(
    service: str, name: str | None = None, *, id: str | None = None
) -> Command[ServiceQueue]:
    """One queue of a service: the one that has the name now, or any by its id."""

    def decode(rows: Rows) -> ServiceQueue:
        if not rows:
            raise QueueNotFoundError(
                f"queue {name!r:.200} does not exist on service {service!r:.200}",
                hint="Create it first.",
                queue=name,
            )
        return _service_queues(rows)[0]

    return Command(load_query("read/service_queues"), _queue_params(service, name, id), decode)


def service_task(service: str, queue: str, kind: TaskKind, task: str) -> Command[ServiceTask]:
    """What became of a task of a queue."""

    def decode(rows: Rows) -> ServiceTask:
        if not rows:
            raise _unknown_task(task)
        id, kind, status, result, error_message = rows[0]
        return ServiceTask(id, kind, status, decode_json(result), error_message)

    try:
        UUID(task)
    except ValueError:
        raise _unknown_task(task) from None
    params = {
        "service": check.text("service", service),
        "name": check.text("queue", queue),
        "kind": kind,
        "task": task,
    }
    return Command(load_query("read/service_task"), params, decode)


def _unknown_task(task: str) -> TaskNotFoundError:
    return TaskNotFoundError(
        f"there is no task {task!r:.200} of this kind, for this queue",
        hint="Tasks are forgotten a week after they are finished.",
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
    return [Service(id, name, dsn, utc(at), by) for id, name, dsn, at, by in rows]


def _service_queues(rows: Rows) -> list[ServiceQueue]:
    return [ServiceQueue(*_row(row)) for row in rows]


def _row(row: Sequence[Any]) -> list[Any]:
    *most, created_at, updated_at = row
    return [*most, utc(created_at), utc(updated_at)]
