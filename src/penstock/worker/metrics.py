"""The metrics of a worker for Prometheus, collected at each request."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError
from penstock.worker.counters import BUCKETS, Seconds

if TYPE_CHECKING:
    from penstock.worker.worker import Worker


class Collector:
    """A collector for `prometheus_client`: register it with any registry.

    REGISTRY.register(Collector(worker))
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Any]:
        core = _prometheus().core
        runners = self._worker.runners
        outcomes = core.CounterMetricFamily(
            "penstock_worker_messages",
            "Runs of handlers, by how they ended.",
            labels=["queue", "outcome"],
        )
        run = core.HistogramMetricFamily(
            "penstock_worker_run_seconds", "How long handlers took.", labels=["queue"]
        )
        wait = core.HistogramMetricFamily(
            "penstock_worker_wait_seconds",
            "From the enqueue of a message to its first run; a delay counts as waiting.",
            labels=["queue"],
        )
        running = core.GaugeMetricFamily(
            "penstock_worker_running", "Handlers that are running.", labels=["queue"]
        )
        waiting = core.GaugeMetricFamily(
            "penstock_worker_claimed_ahead", "Messages claimed and not started.", labels=["queue"]
        )
        concurrency = core.GaugeMetricFamily(
            "penstock_worker_concurrency", "Handlers that may run at once.", labels=["queue"]
        )
        for runner in runners:
            labels = [runner.queue]
            for outcome, count in runner.counters.outcomes().items():
                outcomes.add_metric([*labels, outcome], count)
            _add(run, labels, runner.counters.run)
            _add(wait, labels, runner.counters.wait)
            running.add_metric(labels, len(runner.running))
            waiting.add_metric(labels, len(runner.waiting))
            concurrency.add_metric(labels, runner.concurrency)
        yield from (outcomes, run, wait, running, waiting, concurrency)
        yield core.CounterMetricFamily(
            "penstock_worker_settled", "Messages settled.", value=self._worker.settled
        )
        yield core.GaugeMetricFamily(
            "penstock_worker_unsettled",
            "Messages whose outcome is not in the database yet.",
            value=self._worker.unsettled,
        )
        yield core.GaugeMetricFamily(
            "penstock_worker_wake_ups",
            "1 while notifications arrive, 0 while the worker polls.",
            value=int(self._worker.is_listening),
        )


class MetricsServer:
    """Serves the metrics at an address, in a thread, from start to stop."""

    def __init__(self, worker: Worker, host: str, port: int) -> None:
        prometheus = _prometheus()
        self._host = host
        registry = prometheus.CollectorRegistry()
        registry.register(Collector(worker))
        try:
            self._server, self._thread = prometheus.start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigurationError(
                f"metrics cannot be served at {host}:{port}: {error.strerror or error}",
                hint="Choose another port, or 0 for any that is free.",
            ) from error

    @property
    def address(self) -> str:
        """The address. The port is a free one if 0 was requested."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_port}/metrics"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        thread: threading.Thread = self._thread
        thread.join()


def _add(family: Any, labels: Sequence[str], seconds: Seconds) -> None:
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    sums = accumulate(seconds.counts)
    family.add_metric(labels, list(zip(bounds, sums, strict=True)), seconds.total)


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError:
        raise ConfigurationError(
            "metrics need the package prometheus-client",
            hint="Install it with `pip install 'penstock[metrics]'`.",
        ) from None
    return prometheus_client
