"""The message that the running code works on."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.tasks.context import current_delivery
from penstock.worker.delivery import Delivery


def current() -> Delivery:
    """Return the delivery of the handler or task that is running.

    Returns:
        The delivery.

    Raises:
        PenstockError: No handler is running in this thread or task.
    """
    delivery = current_delivery.get()
    if not isinstance(delivery, Delivery):
        raise PenstockError(
            "no handler is running here",
            hint="Call current() in a handler or a task that a worker runs.",
        )
    return delivery
