"""A backend that runs tasks when they are enqueued, as the suite of Django expects."""

from __future__ import annotations

from typing import Any

from penstock.django import app
from penstock.django.backend import PenstockBackend
from penstock.django.task_handlers import DjangoQueueHandlers
from penstock.django.testing import run_enqueued


class RunAtOnceBackend(PenstockBackend):
    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        served = app._served(task.queue_name)
        assert isinstance(served, DjangoQueueHandlers)
        served.serve_django_tasks()
        run_enqueued(raise_errors=False)
        result.refresh()
        return result
