"""Trace context travels in the headers when a span is active, and only then."""

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from penstock import NewMessage, operations


@pytest.fixture
def tracer():
    return TracerProvider().get_tracer("test")


def test_a_message_enqueued_in_a_span_carries_it(queue, tracer):
    with tracer.start_as_current_span("checkout") as span:
        queue.enqueue("orders", 1, headers={"tenant": "a"})
    [lease] = queue.claim("orders")
    context = span.get_span_context()
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    assert lease.headers["tenant"] == "a"
    assert lease.headers["traceparent"].startswith(f"00-{trace_id}-{span_id}-")


def test_each_of_many_messages_carries_the_span(queue, tracer):
    with tracer.start_as_current_span("import"):
        queue.enqueue_many("orders", [1, NewMessage(2, headers={"h": 1})])
    plain, own = queue.claim("orders", 2)
    assert set(plain.headers) == {"traceparent"}
    assert set(own.headers) == {"traceparent", "h"}


def test_trace_state_travels_too(tracer):
    parent = trace.SpanContext(
        1,
        2,
        is_remote=True,
        trace_flags=trace.TraceFlags(1),
        trace_state=trace.TraceState([("v", "x")]),
    )
    with trace.use_span(trace.NonRecordingSpan(parent)):
        params = operations.enqueue("orders", 1).params
    assert '"tracestate":"v=x"' in params["headers"]


def test_the_callers_own_trace_headers_win(queue, tracer):
    with tracer.start_as_current_span("checkout"):
        queue.enqueue("orders", 1, headers={"traceparent": "mine"})
    assert queue.claim("orders")[0].headers == {"traceparent": "mine"}


def test_outside_a_span_nothing_is_added(queue):
    queue.enqueue("orders", 1)
    assert queue.claim("orders")[0].headers == {}


def test_penstock_does_not_import_opentelemetry_by_itself():
    code = (
        "import sys, penstock; from penstock import operations; operations.enqueue('orders', 1); "
        "sys.exit('opentelemetry' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
