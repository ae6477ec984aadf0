"""Question -> Command, for the HTTP server: keys, activity, services, tasks. No I/O.

As in `insights`, the questions are in sql/insights, one file each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from uuid import UUID

from penstock import arguments as check
from penstock.access import Activity, ApiKey, KeyHash, parse_grants
from penstock.command import Command, Rows, utc
from penstock.errors import QueueNotFoundError, ServiceNotFoundError, TaskNotFoundError
from penstock.insights import page_size
from penstock.payload import decode_json
from penstock.service import Service, ServiceQueue, ServiceTask, TaskKind


def keys(*, include_ended: bool = False) -> Command[list[ApiKey]]:
    """The API keys of the HTTP server: those that are live, or all there ever were."""

    def decode(rows: Rows) -> list[ApiKey]:
        return [
            ApiKey(id, name, parse_grants(grants), utc(at), by, utc(until), utc(ended), ender, live)
            for id, name, grants, at, by, until, ended, ender, live in rows
        ]

    return Command(_text("keys"), {"all": check.truth("include_ended", include_ended)}, decode)


def key_hashes() -> Command[list[KeyHash]]:
    """What the server recognises the holders of keys by."""

    def decode(rows: Rows) -> list[KeyHash]:
        return [
            KeyHash(id, name, secret_hash, parse_grants(grants), utc(expires_at))
            for id, name, secret_hash, grants, expires_at in rows
        ]

    return Command(_text("key_hashes"), {}, decode)


def ended_tokens() -> Command[set[str]]:
    """The ids of sessions and sign-in links that were ended lately."""
    return Command(_text("ended_tokens"), {}, lambda rows: {row[0] for row in rows})


def activity(
    *,
    actor: str | None = None,
    target: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> Command[list[Activity]]:
    """What operators did, newest first; the next page is `before` the last id of this one."""
    params = {
        "actor": check.optional_text("actor", actor),
        "target": check.optional_text("target", target),
        "before": check.optional_whole("before", before, check.INT8),
        "limit": page_size(limit),
    }

    def decode(rows: Rows) -> list[Activity]:
        return [
            Activity(id, utc(at), actor, act, target, decode_json(details) or {}, *rest)
            for id, at, actor, act, target, details, *rest in rows
        ]

    return Command(_text("activity"), params, decode)


def services() -> Command[list[Service]]:
    """The services, in the order in which they were added."""
    return Command(_text("services"), {"service": None}, _services)


def service(name: str) -> Command[Service]:
    """One service, by its name or id."""

    def decode(rows: Rows) -> Service:
        if not rows:
            raise ServiceNotFoundError(
                f"there is no service {name!r:.200}",
                hint="Add it with `penstock service add NAME DSN`.",
                service=name,
            )
        return _services(rows)[0]

    return Command(_text("services"), {"service": check.text("service", name)}, decode)


def service_queues(service: str) -> Command[list[ServiceQueue]]:
    """The queues of a service, by its name or id."""
    return Command(_text("service_queues"), _queue_params(service), _service_queues)


def service_queue(
    service: str, name: str | None = None, *, id: str | None = None
) -> Command[ServiceQueue]:
    """One queue of a service: the one that has the name now, or any by its id."""

    def decode(rows: Rows) -> ServiceQueue:
        if not rows:
            raise QueueNotFoundError(
                f"there is no queue {name!r:.200} on service {service!r:.200}",
                hint="Create it first.",
                queue=name,
            )
        return _service_queues(rows)[0]

    return Command(_text("service_queues"), _queue_params(service, name, id), decode)


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
    return Command(_text("service_task"), params, decode)


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


@cache
def _text(name: str) -> str:
    return files("penstock").joinpath("sql", "insights", f"{name}.sql").read_text("utf-8")
