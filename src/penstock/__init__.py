"""A durable message queue inside your own PostgreSQL.

    from penstock import Client

    with Client() as queue:
        queue.create_queue("emails", exist_ok=True)
        queue.enqueue("emails", {"to": "ada@example.com"})
        for lease in queue.claim("emails", 10):
            print(lease.payload)
            queue.ack(lease)

The other errors are in `penstock.errors`; verbs for other drivers in `penstock.operations`.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient
    from penstock.client.sync_client import Client
    from penstock.errors import LeaseLostError, PenstockError
    from penstock.model.message import Lease, Message, NewMessage
    from penstock.model.queue import Backoff, Queue, QueueSettings, QueueStats
    from penstock.tasks.batch import BatchHandle, batch
    from penstock.tasks.chain import chain
    from penstock.tasks.group import group
    from penstock.tasks.handle import Handle
    from penstock.tasks.task import Task
    from penstock.worker import App, Reject, Retry, RetryPolicy, Snooze, Worker, current

    __version__: str

__all__ = [  # noqa: RUF022 - grouped, not sorted
    # clients
    "AsyncClient",
    "Client",
    # messages
    "Lease",
    "Message",
    "NewMessage",
    # queues
    "Backoff",
    "Queue",
    "QueueSettings",
    "QueueStats",
    # tasks
    "BatchHandle",
    "Handle",
    "Task",
    "batch",
    "chain",
    "group",
    "current",
    # handlers and their outcomes
    "App",
    "Reject",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Worker",
    # errors
    "LeaseLostError",
    "PenstockError",
]

_HOMES = {
    "AsyncClient": "client",
    "Client": "client",
    "Lease": "model.message",
    "Message": "model.message",
    "NewMessage": "model.message",
    "Backoff": "model.queue",
    "Queue": "model.queue",
    "QueueSettings": "model.queue",
    "QueueStats": "model.queue",
    "BatchHandle": "tasks.batch",
    "Handle": "tasks.handle",
    "batch": "tasks.batch",
    "chain": "tasks.chain",
    "group": "tasks.group",
    "Task": "tasks.task",
    "current": "worker",
    "App": "worker",
    "Reject": "worker",
    "Retry": "worker",
    "RetryPolicy": "worker",
    "Snooze": "worker",
    "Worker": "worker",
    "LeaseLostError": "errors",
    "PenstockError": "errors",
}
# So that `import penstock` is enough for `penstock.errors.QueueFullError`.
_MODULES = {"client", "errors", "operations", "worker"}


def __getattr__(name: str) -> typing.Any:
    """On first use: Spark starts a Python for every step of a write, and none needs a client."""
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def _version() -> str:
    from importlib.metadata import version

    found = globals()["__version__"] = version("penstock")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
