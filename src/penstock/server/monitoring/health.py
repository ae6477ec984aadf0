"""Liveness, readiness and metrics."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from penstock.server.monitoring.metrics import CONTENT_TYPE
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints, Reply

endpoint: Final = Endpoints("operations")


class Health(Struct):
    status: str


@endpoint("GET", "/healthz/live", answers={200: Health})
async def live(call: Call) -> Health:
    """The process is alive. No key is needed."""
    return Health("alive")


@endpoint("GET", "/healthz/ready", answers={200: Health}, problems=(503,))
async def ready(call: Call) -> Health:
    """The database responds, and the server is not stopping. No key is needed.

    If the database does not respond within 1.5 seconds, the answer is a 503.
    """
    if call.context.draining.is_set():
        raise HttpError(503, "Draining", "the server is stopping", headers={"Retry-After": "1"})
    await call.context.database.probe()
    return Health("ready")


@endpoint("GET", "/metrics", answers={200: str}, media_type="text/plain")
async def metrics(call: Call) -> Reply:
    """Metrics for Prometheus, of the server and of the queues that the key may read."""

    def shown(queue: str) -> bool:
        return call.principal.may("read", queue)

    return Reply(await call.context.metrics.page(shown), media_type=CONTENT_TYPE)
