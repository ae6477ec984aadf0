"""The queues of the backends in `TASKS` that are Penstock's."""

from __future__ import annotations

from typing import Final

from django.conf import settings

from penstock.django.conf import penstock_settings

_BACKEND: Final = "penstock.django.backend.PenstockBackend"


def backend_queues() -> list[str]:
    """The queues that Django's Tasks use. Nothing is imported where none of them is Penstock's."""
    tasks = getattr(settings, "TASKS", {})
    if not any(_may_be_ours(params.get("BACKEND")) for params in tasks.values()):
        return []
    from penstock.django.backend import PenstockBackend
    from penstock.django.task_api import DEFAULT_TASK_QUEUE_NAME, task_backends

    names: dict[str, None] = {}
    for alias in task_backends:
        backend = task_backends[alias]
        if isinstance(backend, PenstockBackend):
            # A backend without a list accepts every name.
            found = backend.queues or [DEFAULT_TASK_QUEUE_NAME, *penstock_settings().queues]
            names.update(dict.fromkeys(sorted(found)))
    return list(names)


def _may_be_ours(backend: object) -> bool:
    """A subclass has another path, so only Django's own backends are ruled out."""
    return not str(backend).startswith(("django.tasks.", "django_tasks."))
