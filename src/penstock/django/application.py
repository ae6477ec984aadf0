"""The App of a Django project."""

from __future__ import annotations

import functools
from typing import Any

from django.conf import settings

from penstock.django.clients import DjangoClients
from penstock.django.task_queues import backend_queues
from penstock.tasks.clients import AppClients
from penstock.worker import app as base
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call, Function, QueueHandlers


class App(base.App):
    """The tasks and handlers of a Django project. `penstock.django.app` is one.

    Tasks are enqueued on Django's connection, in its transaction. Handlers in a worker start with
    connections that work.

    Args:
        using: The alias of the database. The default is that of `PENSTOCK["DATABASE"]`.
        name: The name of the application, which marks its schedules. The default is the package of
            the settings of the project.
    """

    managed_by = "manage.py penstock_worker, or manage.py penstock_schedules"

    def __init__(self, using: str | None = None, *, name: str | None = None) -> None:
        self.using = using
        super().__init__(name=name or "")

    @property
    def name(self) -> str:
        # The settings may be loaded after this module.
        module = getattr(settings, "SETTINGS_MODULE", None) or "django"
        return self._name or str(module).partition(".")[0]

    def serve_django_tasks(self) -> None:
        """Serve the queues of the backends in `TASKS` that are Penstock's, too."""
        from penstock.django.task_handlers import DjangoQueueHandlers

        for queue in backend_queues():
            served = self._served(queue)
            assert isinstance(served, DjangoQueueHandlers)
            served.serve_django_tasks()

    def wrap(self, call: Call) -> Call:
        from penstock.django.connections import with_fresh_connections

        # The outermost, because middleware may use the ORM.
        has_middleware = bool(self._middleware)
        return with_fresh_connections(super().wrap(call), has_middleware=has_middleware)

    def _make_clients(self, dsn: str | None) -> AppClients:
        return DjangoClients(self.using)

    def _in_thread(self, function: Function) -> Function:
        @functools.wraps(function)
        def run(delivery: Delivery) -> Any:
            from penstock.django.connections import fresh_connections

            with fresh_connections():
                return function(delivery)

        return run

    def _served(self, queue: str) -> QueueHandlers:
        from penstock.django.task_handlers import DjangoQueueHandlers

        return self._queues.setdefault(queue, DjangoQueueHandlers(queue, self._in_thread))
