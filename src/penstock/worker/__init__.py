"""The worker: handlers and tasks by queue, and the process that runs them.

    from penstock.worker import App, Retry

    app = App()

    @app.handler("emails", concurrency=20, timeout=30)
    async def send(message):
        if not await mail(message.payload["to"]):
            raise Retry(after=60)

Then `penstock worker module:app`, or `await Worker(app).run()`.
"""

from penstock.worker.app import App
from penstock.worker.current import current
from penstock.worker.delivery import Delivery
from penstock.worker.outcomes import Reject, Retry, Snooze
from penstock.worker.processes import ProcessLimits
from penstock.worker.progress import TaskLogHandler
from penstock.worker.retry import RetryPolicy
from penstock.worker.worker import Worker

__all__ = [
    "App",
    "Delivery",
    "ProcessLimits",
    "Reject",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "TaskLogHandler",
    "Worker",
    "current",
]
