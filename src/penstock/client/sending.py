"""OpenTelemetry spans and metrics of calls that enqueue. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from penstock.commands import semantic_conventions as names

ENQUEUE: Final = "enqueue"


class Sending:
    """The result of a call, for its span and its metrics: an id, or the number of many messages."""

    __slots__ = ("count", "id")

    def __init__(self) -> None:
        self.id: int | None = None
        self.count: int | None = None


# Without OpenTelemetry. All calls write to it, and nothing reads it.
_UNUSED: Final = nullcontext(Sending())


def sending(queue: str) -> AbstractContextManager[Sending]:
    """A span of kind PRODUCER and its metrics, if the process has set providers for them.

    The messages carry the context of this span, since it is the active one within the block.
    """
    # A process that traces has imported it by now. Other processes avoid a slow import.
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.metrics" not in sys.modules:
        return _UNUSED
    tracer, instruments = _tracer(), _instruments()
    if tracer is None and instruments is None:
        return _UNUSED
    return _recorded(queue, tracer, instruments)


@contextmanager
def _recorded(queue: str, tracer: Any, instruments: Any) -> Iterator[Sending]:
    attributes: dict[str, Any] = names.attributes_of(queue, ENQUEUE, names.SEND)
    sent, started = Sending(), perf_counter()
    with _span(tracer, queue, attributes) as span:
        try:
            yield sent
        except Exception as error:
            attributes[names.ERROR_TYPE] = names.error_type(error)
            if span is not None:
                span.set_attribute(names.ERROR_TYPE, attributes[names.ERROR_TYPE])
            raise
        else:
            if span is not None:
                _describe(span, sent)
        finally:
            if instruments is not None:
                duration, messages = instruments
                duration.record(perf_counter() - started, attributes)
                del attributes[names.OPERATION_TYPE]  # not an attribute of this counter
                messages.add(1 if sent.count is None else sent.count, attributes)


def _span(tracer: Any, queue: str, attributes: dict[str, Any]) -> AbstractContextManager[Any]:
    if tracer is None:
        return nullcontext()
    from opentelemetry.trace import SpanKind

    found: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"{ENQUEUE} {queue}", kind=SpanKind.PRODUCER, attributes=attributes
    )
    return found


def _describe(span: Any, sent: Sending) -> None:
    if sent.id is not None:
        span.set_attribute(names.MESSAGE_ID, str(sent.id))
    if sent.count is not None:
        span.set_attribute(names.MESSAGE_COUNT, sent.count)


def _tracer() -> Any:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    return provider.get_tracer("penstock.client")


def _instruments() -> Any:
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return None if type(provider).__name__ == "_ProxyMeterProvider" else _made(provider)


@lru_cache(maxsize=1)
def _made(provider: Any) -> tuple[Any, Any]:
    """The histogram of durations and the counter of messages. A provider is set once."""
    meter = provider.get_meter("penstock.client")
    duration = meter.create_histogram(
        names.OPERATION_DURATION,
        unit="s",
        description="Duration of a messaging operation of the client.",
        explicit_bucket_boundaries_advisory=names.SECONDS_BUCKETS,
    )
    messages = meter.create_counter(
        names.SENT_MESSAGES,
        unit="{message}",
        description="Messages that the client enqueued.",
    )
    return duration, messages
