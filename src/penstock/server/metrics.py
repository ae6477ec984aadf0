"""Numbers for Prometheus: what this process answered, and what the queues hold.

The queues are looked at when they are asked about, at most every few seconds; `penstock.stats`
estimates what is too much to count, so that a look stays cheap at millions of messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from penstock import insights
from penstock.server.database import Database
from penstock.server.exchange import Exchange

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LOOK_SECONDS: Final = 5.0
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """One registry for each process, so that tests and several servers do not share numbers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at = -1e9
        self._queues: set[str] = set()
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "penstock_http_requests_total",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "penstock_http_request_seconds",
            "How long requests took, without the time that long polls waited.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._messages = Gauge(
            "penstock_queue_messages",
            "Messages in each state.",
            ["queue", "state"],
            registry=self.registry,
        )
        self._oldest = Gauge(
            "penstock_queue_oldest_ready_seconds",
            "Age of the oldest ready message.",
            ["queue"],
            registry=self.registry,
        )
        self._up = Gauge(
            "penstock_database_up", "1 while the database answers.", registry=self.registry
        )
        # Labels are found by a lock and a lookup: their children are kept.
        self._children: dict[tuple[str, str, int], tuple[Callable[[], None], Histogram]] = {}

    def count(self, method: str, exchange: Exchange) -> None:
        """One request more."""
        key = (method, exchange.route, exchange.status)
        found = self._children.get(key)
        if found is None:
            route = exchange.route or "other"
            found = (
                self._requests.labels(method, route, str(exchange.status)).inc,
                self._seconds.labels(method, route),
            )
            self._children[key] = found
        found[0]()
        found[1].observe(time.perf_counter() - exchange.started - exchange.waited)

    async def page(self) -> bytes:
        """The numbers, in the format of Prometheus."""
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            await self._look()
        return generate_latest(self.registry)

    async def _look(self) -> None:
        self._looked_at = time.monotonic()
        try:
            queues = await self._database.run(insights.queues())
            found = [await self._database.run(insights.stats(queue.name)) for queue in queues]
        except Exception:
            self._up.set(0)
            return
        self._up.set(1)
        for stats in found:
            for state in ("ready", "scheduled", "leased", "dead"):
                self._messages.labels(stats.queue, state).set(getattr(stats, state))
            self._oldest.labels(stats.queue).set(stats.oldest_ready_seconds or 0)
        names = {stats.queue for stats in found}
        for gone in self._queues - names:
            self._oldest.remove(gone)
            for state in ("ready", "scheduled", "leased", "dead"):
                self._messages.remove(gone, state)
        self._queues = names
