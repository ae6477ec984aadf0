"""A backend for Django's Tasks.

    TASKS = {"default": {"BACKEND": "penstock.django.backend.PenstockBackend"}}

| key of `OPTIONS` | meaning | default |
|---|---|---|
| `max_attempts` | attempts until a task has failed | that of the queue |
| `result_ttl_seconds` | for how long return values are kept | one day |
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.utils import timezone

from penstock.commands import write
from penstock.commands.read import message as read_message
from penstock.commands.write.results import get_results
from penstock.django import task_messages
from penstock.django.database import client
from penstock.django.task_api import (
    AnyResult,
    AnyTask,
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from penstock.errors import InvalidValueError, MessageNotFoundError

_OPTIONS: Final = {"max_attempts": (1, 100), "result_ttl_seconds": (1, 315_360_000)}
_QUEUE: Final = re.compile(r"[a-z0-9._-]{1,128}")


class PenstockBackend(BaseTaskBackend):
    """Enqueues tasks as messages, on Django's own connection.

    A task that is enqueued in a transaction runs after its commit, and never after a rollback.
    `ENQUEUE_ON_COMMIT` of earlier versions of django-tasks is therefore not needed.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.max_attempts: int | None = self.options.get("max_attempts")
        self.result_ttl_seconds: int = self.options.get("result_ttl_seconds", 86_400)

    def validate_task(self, task: AnyTask) -> None:
        super().validate_task(task)
        if not _QUEUE.fullmatch(task.queue_name) or task.queue_name.endswith(".dlq"):
            raise InvalidTask(
                f"Queue {task.queue_name!r} is not a name of a queue: 1 to 128 lowercase letters, "
                "digits, -, _ and ., not ending in .dlq."
            )

    def enqueue(self, task: AnyTask, args: Any, kwargs: Any) -> AnyResult:  # type: ignore[override]
        """Enqueue a call. InvalidTask if the task does not fit this backend."""
        self.validate_task(task)
        queue = client()
        run_after = task.run_after
        if run_after is not None and timezone.is_naive(run_after):
            run_after = timezone.make_aware(run_after)
        payload = {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))}
        command = write.enqueue(
            task.queue_name,
            payload,
            priority=task_messages.message_priority(task.priority),
            visible_at=run_after,
            headers=task_messages.headers(task),
            max_attempts=self.max_attempts,
        )
        result = self.get_result(str(queue.run(command)))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> AnyResult:
        """TaskResultDoesNotExist if there is none, or if it has expired."""
        queue = client()
        try:
            message = queue.run(read_message(int(result_id)))
        except MessageNotFoundError:
            stored = self._stored(result_id)
            result = task_messages.result_from_json(int(result_id), stored)
        except (ValueError, InvalidValueError):
            raise TaskResultDoesNotExist(result_id) from None
        else:
            value = json.loads(self._stored(result_id)) if message.state == "done" else None
            result = task_messages.result_of(message, value)
        if result is None or result.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return result

    def _stored(self, result_id: str) -> str:
        """The JSON text of a kept result."""
        id = int(result_id)
        found = client().run(get_results([id])).get(id)
        if found is None or found.state != "done" or found.value is None:
            raise TaskResultDoesNotExist(result_id)
        return found.value

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """System checks: the app must be installed, and the options must be known."""
        found: list[CheckMessage] = []
        if not apps.is_installed("penstock.django"):
            found.append(
                Error(
                    f"TASKS[{self.alias!r}] uses Penstock, which is not installed as an app.",
                    hint="Add 'penstock.django' to INSTALLED_APPS.",
                    id="penstock.E101",
                )
            )
        for name, value in self.options.items():
            low, high = _OPTIONS.get(name, (0, 0))
            if name not in _OPTIONS or type(value) is not int or not low <= value <= high:
                found.append(
                    Error(
                        f"TASKS[{self.alias!r}]['OPTIONS'] has {name!r}: {value!r}.",
                        hint=f"Allowed: {_allowed()}.",
                        id="penstock.E102",
                    )
                )
        return found


def _allowed() -> str:
    return ", ".join(f"{name} from {low} to {high}" for name, (low, high) in _OPTIONS.items())
