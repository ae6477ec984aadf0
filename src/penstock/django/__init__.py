"""Penstock in a Django project.

    INSTALLED_APPS = [..., "penstock.django"]

    # shop/tasks.py
    from penstock.django import app

    @app.task(queue="emails")
    def send_receipt(order_id: int) -> None: ...

    # shop/views.py
    with transaction.atomic():
        order.save()
        send_receipt.enqueue_sync(order.pk)

`manage.py migrate` installs the schema and creates the queues. `manage.py penstock_worker` runs the
tasks. Enqueues use Django's own connection, so they are part of its transaction.
"""

from penstock.django.application import App
from penstock.django.database import async_client, client

app = App()
"""The application of the project. The tasks of all installed apps can share it."""

__all__ = ["App", "app", "async_client", "client"]
