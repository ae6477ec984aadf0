"""For the tests of a Django project: run what was enqueued, in the test's own transaction.

class OrderTests(TestCase):
    def test_a_receipt_is_sent(self):
        self.client.post("/orders/", {"item": "lamp"})
        run_enqueued()
        self.assertEqual(len(mail.outbox), 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.utils.module_loading import autodiscover_modules

from penstock.django.application import App
from penstock.django.database import async_client, client
from penstock.testing.draining import LIMIT, Handled, drain_with

__all__ = ["Handled", "arun_enqueued", "purge_queues", "run_enqueued"]


def run_enqueued(
    *queues: str, app: App | None = None, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """Run the handlers and tasks of the project until no message is ready.

    They run in this thread and on its connection, so a TestCase that rolls back sees their work,
    and they see its data. So do tasks with `process=True`. Messages that they enqueue are handled
    too. Delayed ones are not.

    Args:
        *queues: The queues. The default is all queues of the app.
        app: The app. The default is `penstock.django.app`.
        limit: The largest number of messages.
        raise_errors: Raise the exception of a handler, after its message is settled. Tasks of
            Django's Tasks raise nothing here: look at their results.

    Returns:
        The runs, in order.

    Raises:
        AssertionError: `limit` messages were handled, and more are ready.
    """
    return async_to_sync(arun_enqueued)(*queues, app=app, limit=limit, raise_errors=raise_errors)


async def arun_enqueued(
    *queues: str, app: App | None = None, limit: int = LIMIT, raise_errors: bool = True
) -> list[Handled]:
    """As `run_enqueued`, for async tests."""
    served = _served(app)
    database = async_client(served.using)
    return await drain_with(
        served, database, database.run, queues, limit, raise_errors, None, _ThisThread()
    )


def purge_queues(*queues: str) -> None:
    """Remove all messages, as a TransactionTestCase does with the rows of models.

    Args:
        *queues: The queues. The default is all queues.
    """
    database = client()
    for name in queues or [queue.name for queue in database.queues()]:
        database.purge(name)
        database.purge(f"{name}.dlq")


def _served(app: App | None) -> App:
    from penstock.django import app as default

    autodiscover_modules("tasks")
    served = default if app is None else app
    served.serve_django_tasks()
    return served


class _ThisThread:
    """Calls handlers in the thread whose connection the test uses."""

    busy = 0

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        return await sync_to_async(function)(argument)

    def close(self) -> None:
        """It keeps no connections."""
