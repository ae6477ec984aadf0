"""OpenTelemetry metrics of each run of a handler. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from penstock.commands import semantic_conventions as names
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call
from penstock.worker.outcomes import Complete, Snooze, cause_of


def measured(queue: str, call: Call) -> Call:
    """The call with its duration measured if the process has set a meter provider, or unchanged."""
    # A process that uses OpenTelemetry has imported it by now. Other processes avoid a slow import.
    if "opentelemetry.metrics" not in sys.modules:
        return call
    from opentelemetry import metrics

    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider":
        return call
    meter = metrics.get_meter("penstock.worker")
    duration = meter.create_histogram(
        names.PROCESS_DURATION,
        unit="s",
        description="Duration of processing a message.",
        explicit_bucket_boundaries_advisory=names.SECONDS_BUCKETS,
    )
    consumed = meter.create_counter(
        names.CONSUMED_MESSAGES,
        unit="{message}",
        description="Messages that were delivered to the application.",
    )
    attributes = names.attributes_of(queue, names.PROCESS, names.PROCESS)
    del attributes[names.OPERATION_TYPE]  # an attribute of spans only

    def note(seconds: float, error: BaseException | None) -> None:
        found = dict(attributes)
        if error is not None:
            found[names.ERROR_TYPE] = names.error_type(cause_of(error))
        duration.record(seconds, found)
        consumed.add(1, found)

    async def measured_call(delivery: Delivery) -> Any:
        started = perf_counter()
        try:
            result = await call(delivery)
        except Exception as error:
            note(perf_counter() - started, _failure(error))
            raise
        note(perf_counter() - started, _failure(result))
        return result

    return measured_call


def _failure(ended: object) -> BaseException | None:
    """The error of a run, if it failed. A handler may return or raise an outcome."""
    if isinstance(ended, Complete | Snooze) or not isinstance(ended, BaseException):
        return None
    return ended
