"""The trace context in the headers of a message. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def with_trace(headers: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The headers with the active span's `traceparent` and `tracestate`, unless they are set."""
    # A span can only be active if the caller imported OpenTelemetry. A look into sys.modules is
    # free, and avoids a slow import.
    if "opentelemetry.trace" not in sys.modules:
        return headers
    context = _active()
    if not context or not isinstance(headers, Mapping | None):
        return headers
    return {**context, **(headers or {})}


def context_of(headers: Mapping[str, Any]) -> Any:
    """The context of the span that enqueued a message, or None. OpenTelemetry must be there."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = ("traceparent", "tracestate")
    carrier = {name: headers[name] for name in names if isinstance(headers.get(name), str)}
    if not carrier:
        return None
    context = TraceContextTextMapPropagator().extract(carrier)
    enqueuer = trace.get_current_span(context).get_span_context()
    return enqueuer if enqueuer.is_valid else None


def _active() -> dict[str, str]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier
