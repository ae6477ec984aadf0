"""Calls that enqueue have spans and metrics, and trace context travels in the headers."""

import subprocess
import sys

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock import NewMessage, operations
from penstock.errors import QueueNotFoundError


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


@pytest.fixture
def exporter(monkeypatch):
    """The spans of a process that has set a tracer provider."""
    found, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return found


def test_an_enqueue_is_a_span_that_the_message_carries(queue, tracer, exporter):
    with tracer.start_as_current_span("checkout") as checkout:
        id = queue.enqueue("orders", 1)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("enqueue orders", trace.SpanKind.PRODUCER)
    assert span.parent == checkout.get_span_context()
    assert dict(span.attributes) == {
        "messaging.system": "penstock",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": str(id),
    }
    (lease,) = queue.claim("orders")
    assert lease.headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


def test_many_messages_are_one_span_with_their_number(queue, exporter):
    queue.enqueue_many("orders", range(5), chunk_size=2)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["messaging.batch.message_count"] == 5
    parents = {lease.headers["traceparent"].split("-")[2] for lease in queue.claim("orders", 5)}
    assert parents == {f"{span.context.span_id:016x}"}


def test_a_refused_enqueue_is_a_span_with_its_error(queue, exporter):
    with pytest.raises(QueueNotFoundError):
        queue.enqueue("nowhere", 1)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"].endswith(".QueueNotFoundError")
    assert (span.status.status_code.name, len(span.events)) == ("ERROR", 1)


def test_enqueues_are_measured_by_queue_and_error(queue, monkeypatch):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    queue.enqueue("orders", 1)
    queue.enqueue_many("orders", range(5))
    with pytest.raises(QueueNotFoundError):
        queue.enqueue("nowhere", 1)
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    points = {metric.name: metric.data.data_points for metric in scope.metrics}
    sent = {p.attributes["messaging.destination.name"]: p for p in points.pop(SENT)}
    assert {queue: point.value for queue, point in sent.items()} == {"orders": 6, "nowhere": 1}
    assert "error.type" in sent["nowhere"].attributes
    assert dict(sent["orders"].attributes) == {
        "messaging.system": "penstock",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "orders",
    }
    (durations,) = points.values()
    assert {p.attributes["messaging.destination.name"]: p.count for p in durations} == {
        "orders": 2,
        "nowhere": 1,
    }


SENT = "messaging.client.sent.messages"
