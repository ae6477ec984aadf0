"""The message that the running code works on."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.tasks.context import current_delivery
from penstock.worker.delivery import Delivery


def current() -> Delivery:
    """The delivery of the handler or task that runs. PenstockError outside of one."""
    delivery = current_delivery.get()
    if not isinstance(delivery, Delivery):
        raise PenstockError(
            "no handler is running here",
            hint="Call current() in a handler or a task that a worker runs.",
        )
    return delivery
