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

from penstock.client import Client
from penstock.client_async import AsyncClient
from penstock.errors import LeaseLostError, PenstockError
from penstock.message import Lease, Message, NewMessage
from penstock.queue import Queue, QueueSettings, QueueStats
from penstock.worker import App, Reject, Retry, Snooze

__all__ = [  # noqa: RUF022 - grouped, not sorted
    # clients
    "AsyncClient",
    "Client",
    # messages
    "Lease",
    "Message",
    "NewMessage",
    # queues
    "Queue",
    "QueueSettings",
    "QueueStats",
    # handlers and their outcomes
    "App",
    "Reject",
    "Retry",
    "Snooze",
    # errors
    "LeaseLostError",
    "PenstockError",
]
