"""The delivery that the running code works on, if it runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from penstock.errors import PenstockError

# Any: the worker, which sets it, is a layer above.
current_delivery: Final[ContextVar[Any]] = ContextVar("penstock_delivery", default=None)


def enqueue_with_ack(messages: Sequence[Mapping[str, Any]]) -> None:
    """Enqueue messages together with the ack of the handler that runs."""
    delivery = current_delivery.get()
    if delivery is None:
        raise PenstockError(
            "no handler is running here",
            hint="Call enqueue_with_ack() in a handler or a task that a worker runs.",
        )
    delivery._enqueues.extend(messages)
