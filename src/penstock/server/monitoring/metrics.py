"""Metrics for Prometheus: requests of the server, and messages of the queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from penstock.server.database import Database
from penstock.server.monitoring.process_metrics import BUCKETS, Answers, Notes, Numbers
from penstock.server.monitoring.queue_metrics import QueueMetrics
from penstock.server.transport.exchange import Exchange

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAMES: Final = [*map(str, BUCKETS), "+Inf"]


class Metrics(Collector):
    """The metrics of one process. Those of the queues come from the database."""

    def __init__(self, database: Database, notes: Path | None = None) -> None:
        self._numbers = Numbers()
        self._notes = Notes(notes)
        self._noting: asyncio.Task[None] | None = None
        self._queues = QueueMetrics(database)

    def start(self) -> None:
        self._noting = asyncio.create_task(self._notes.keep(self._numbers))

    async def stop(self) -> None:
        if self._noting is not None:
            self._noting.cancel()
            with suppress(asyncio.CancelledError):
                await self._noting
        self._numbers.waiting = 0
        self._notes.write(self._numbers)

    def count(self, method: str, exchange: Exchange) -> None:
        """Count one request."""
        key = (method, exchange.route, exchange.status)
        answers = self._numbers.answers.get(key)
        if answers is None:
            answers = self._numbers.answers[key] = Answers()
        answers.add(perf_counter() - exchange.started - exchange.waited)

    def moved(self, how: str, count: int) -> None:
        """Count messages that were enqueued, delivered or settled, or whose lease was lost."""
        self._numbers.messages[how] = self._numbers.messages.get(how, 0) + count

    def waits(self, more: int) -> None:
        """Change the number of waiting consumers."""
        self._numbers.waiting += more

    async def page(self, shown: Callable[[str], bool]) -> bytes:
        """The metrics in the format of Prometheus, with those of the given queues."""
        await self._queues.look()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        registry.register(self._queues.of(shown))
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        total = self._notes.sum(self._numbers)
        yield from _answered(total)
        messages = CounterMetricFamily(
            "penstock_http_messages",
            "Messages enqueued, delivered and settled over HTTP. lost: the lease was lost.",
            labels=["how"],
        )
        for how, count in total.messages.items():
            messages.add_metric([how], count)
        yield messages
        yield GaugeMetricFamily(
            "penstock_http_long_polls", "Consumers that wait for a message.", total.waiting
        )


def _answered(total: Numbers) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "penstock_http_requests", "Requests answered.", labels=["method", "route", "status"]
    )
    seconds = HistogramMetricFamily(
        "penstock_http_request_seconds",
        "Duration of requests, without the time that long polls waited.",
        labels=["method", "route"],
    )
    by_route: dict[tuple[str, str], Answers] = {}
    for (method, route, status), each in total.answers.items():
        requests.add_metric([method, route or "other", str(status)], each.count)
        by_route.setdefault((method, route or "other"), Answers()).add_all(each)
    for labels, each in by_route.items():
        seconds.add_metric(labels, _cumulative(each.buckets), each.seconds)
    yield requests
    yield seconds


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for name, count in zip(_NAMES, buckets, strict=True):
        total += count
        found.append((name, float(total)))
    return found
