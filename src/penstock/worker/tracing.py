"""A span for each run of a handler, linked to the span that enqueued. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from typing import Any

from penstock.commands import semantic_conventions as names
from penstock.commands.trace_context import context_of
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call
from penstock.worker.outcomes import Complete, Outcome, Snooze, cause_of


def traced(queue: str, call: Call) -> Call:
    """The call in its own span if the process has set a tracer provider, otherwise unchanged.

    The span is linked, not a child: a message may be handled days later, and several times.
    """
    # A process that traces has imported it by now. Other processes avoid a slow import.
    if "opentelemetry.trace" not in sys.modules:
        return call
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return call
    tracer = trace.get_tracer("penstock.worker")

    async def traced_call(delivery: Delivery) -> Any:
        with tracer.start_as_current_span(
            f"{names.PROCESS} {queue}",
            kind=trace.SpanKind.CONSUMER,
            links=_connections(delivery),
            attributes=_attributes(delivery),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call(delivery)
                if isinstance(result, Outcome):
                    _decided(span, result)
                return result
            except Outcome as outcome:
                _decided(span, outcome)
                raise
            except Exception as error:
                span.record_exception(error)
                span.set_attribute(names.ERROR_TYPE, names.error_type(error))
                span.set_status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")
                raise

    return traced_call


def _connections(delivery: Delivery) -> list[Any]:
    from opentelemetry import trace

    enqueuer = context_of(delivery.headers)
    return [] if enqueuer is None else [trace.Link(enqueuer)]


def _attributes(delivery: Delivery) -> dict[str, str | int]:
    return {
        **names.attributes_of(delivery.queue, names.PROCESS, names.PROCESS),
        names.MESSAGE_ID: str(delivery.id),
        "penstock.attempt": delivery.attempt,
    }


def _decided(span: Any, outcome: Outcome) -> None:
    from opentelemetry import trace

    if isinstance(outcome, Complete):
        return
    span.set_attribute("penstock.outcome", outcome.verb)
    if not isinstance(outcome, Snooze):
        span.set_attribute(names.ERROR_TYPE, names.error_type(cause_of(outcome)))
        span.set_status(trace.StatusCode.ERROR, str(outcome))
