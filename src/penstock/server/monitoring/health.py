"""Whether the process lives, whether it can work, and its numbers."""

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
    """The process answers. Open to anybody."""
    return Health("alive")


@endpoint("GET", "/healthz/ready", answers={200: Health}, problems=(503,))
async def ready(call: Call) -> Health:
    """The database answers too, and the server is not on its way out. Open to anybody.

    A database that does not answer within 1.5 seconds is a 503.
    """
    if call.context.draining.is_set():
        raise HttpError(503, "Draining", "the server is stopping", headers={"Retry-After": "1"})
    await call.context.database.probe()
    return Health("ready")


@endpoint("GET", "/metrics", answers={200: str}, media_type="text/plain")
async def metrics(call: Call) -> Reply:
    """Numbers for Prometheus, of the server and of the queues that the key may read."""

    def shown(queue: str) -> bool:
        return call.principal.may("read", queue)

    return Reply(await call.context.metrics.page(shown), media_type=CONTENT_TYPE)
