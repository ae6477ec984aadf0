"""Calls of a client have spans and metrics, and trace context travels in the headers."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes as registry
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from penstock import AsyncClient, NewMessage, operations
from penstock.client import telemetry
from penstock.errors import InvalidValueError, LeaseLostError, QueueNotFoundError


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


# What the registry requires of each span of messaging, and of each point of its metrics.
REQUIRED = {registry.MESSAGING_SYSTEM, registry.MESSAGING_OPERATION_NAME}
# What it requires where it is known, and where an operation failed.
KNOWN = {registry.MESSAGING_OPERATION_TYPE, registry.MESSAGING_DESTINATION_NAME}


def test_a_claim_is_a_span_that_is_linked_to_those_that_enqueued(queue, exporter):
    first = queue.enqueue("orders", 1)
    second = queue.enqueue("orders", 2)
    sent = {span.attributes["messaging.message.id"]: span for span in exporter.get_finished_spans()}
    exporter.clear()
    queue.claim("orders", 5)
    queue.claim("orders", 5)
    span, empty = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("claim orders", trace.SpanKind.CONSUMER)
    assert dict(span.attributes) == {
        "messaging.system": "penstock",
        "messaging.operation.name": "claim",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 2,
    }
    linked = [link.context.span_id for link in span.links]
    assert linked == [sent[str(id)].context.span_id for id in (first, second)]
    assert (empty.attributes["messaging.batch.message_count"], list(empty.links)) == (0, [])


def test_each_settlement_is_a_span(queue, exporter):
    ids = [queue.enqueue("orders", n) for n in range(8)]
    leases = queue.claim("orders", 8)
    exporter.clear()
    queue.ack(leases[0])
    queue.nack((leases[1].id, leases[1].token), "no", 60)
    queue.reject(leases[2], "no")
    queue.snooze(leases[3], 60)
    queue.ack_many([leases[0], leases[4]])  # the first is settled already
    queue.nack_many([leases[5]], "no", 60)
    queue.reject_many([leases[6]])
    queue.snooze_many([leases[7]], 60)
    spans = exporter.get_finished_spans()
    assert {span.kind for span in spans} == {trace.SpanKind.CLIENT}
    assert {span.attributes["messaging.operation.type"] for span in spans} == {"settle"}
    found = [
        (span.name, span.attributes.get("messaging.message.id"),
         span.attributes.get("messaging.batch.message_count"))
        for span in spans
    ]  # fmt: skip
    assert found == [
        ("ack orders", str(ids[0]), None),
        ("nack", str(ids[1]), None),  # of an id and a token: the queue is not known
        ("reject orders", str(ids[2]), None),
        ("snooze orders", str(ids[3]), None),
        ("ack orders", None, 1),
        ("nack orders", None, 1),
        ("reject orders", None, 1),
        ("snooze orders", None, 1),
    ]
    for span in spans:
        known = KNOWN - ({registry.MESSAGING_DESTINATION_NAME} if span.name == "nack" else set())
        assert set(span.attributes) >= REQUIRED | known


def test_a_lost_lease_is_a_span_with_its_error(queue, exporter):
    queue.enqueue("orders", 1)
    (lease,) = queue.claim("orders")
    queue.ack(lease)
    exporter.clear()
    with pytest.raises(LeaseLostError):
        queue.nack(lease)
    (span,) = exporter.get_finished_spans()
    assert set(span.attributes) >= REQUIRED | KNOWN | {ERROR_TYPE}
    assert span.attributes["error.type"].endswith(".LeaseLostError")


def test_arguments_that_are_refused_keep_their_error(queue, exporter):
    for wrong in (None, 5, ()):
        with pytest.raises(InvalidValueError):
            queue.ack(wrong)
        with pytest.raises(InvalidValueError):
            queue.ack_many(5 if wrong == () else [wrong])


async def test_batched_claims_and_acks_have_a_span_each(dsn, queue, exporter):
    queue.enqueue_many("orders", range(4))
    exporter.clear()
    async with AsyncClient(dsn) as client:
        claimed = await asyncio.gather(*(client.claim("orders") for _ in range(4)))
        await asyncio.gather(*(client.ack(lease) for [lease] in claimed))
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == ["ack orders"] * 4 + ["claim orders"] * 4


def test_claims_and_settlements_are_measured(queue, reader):
    queue.enqueue_many("orders", range(3))
    leases = queue.claim("orders", 3)
    queue.claim("orders", 3)
    queue.ack(leases[0])
    queue.nack_many(leases[1:])
    with pytest.raises(QueueNotFoundError):
        queue.claim("nowhere")
    points = points_of(reader)
    for metric in points.values():
        for point in metric:
            assert set(point.attributes) >= REQUIRED | {registry.MESSAGING_DESTINATION_NAME}
    (consumed,) = points["messaging.client.consumed.messages"]
    assert consumed.value == 3
    assert dict(consumed.attributes) == {
        "messaging.system": "penstock",
        "messaging.operation.name": "claim",
        "messaging.destination.name": "orders",
    }
    durations = {
        (p.attributes["messaging.operation.name"], p.attributes["messaging.destination.name"]): p
        for p in points["messaging.client.operation.duration"]
    }
    assert {key: point.count for key, point in durations.items()} == {
        ("enqueue", "orders"): 1,
        ("claim", "orders"): 2,
        ("claim", "nowhere"): 1,
        ("ack", "orders"): 1,
        ("nack", "orders"): 1,
    }
    assert ERROR_TYPE in durations["claim", "nowhere"].attributes


def test_without_a_provider_no_call_is_recorded(queue):
    """All calls share one context, and no lease is kept after its call."""
    assert telemetry.sending("orders") is telemetry.receiving("orders")
    assert telemetry.settling("ack", (1, 2)) is telemetry.settling_many("ack", [])
    queue.enqueue("orders", 1)
    queue.ack_many(queue.claim("orders"))
    with telemetry.receiving("orders") as unused:
        assert unused.leases == ()


@pytest.fixture
def reader(monkeypatch):
    """The metrics of a process that has set a meter provider."""
    made = InMemoryMetricReader()
    provider = MeterProvider([made])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    return made


def points_of(reader):
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric.data.data_points for metric in scope.metrics}


def test_enqueues_are_measured_by_queue_and_error(queue, reader):
    queue.enqueue("orders", 1)
    queue.enqueue_many("orders", range(5))
    with pytest.raises(QueueNotFoundError):
        queue.enqueue("nowhere", 1)
    points = points_of(reader)
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
