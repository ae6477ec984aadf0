"""OpenTelemetry spans and metrics of the calls of a client. OpenTelemetry is optional."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from penstock.commands import semantic_conventions as names
from penstock.commands.trace_context import context_of
from penstock.model.message import Lease, LeaseLike

ENQUEUE: Final = "enqueue"
CLAIM: Final = "claim"


class Result:
    """The result of a call, for its span and its metrics: an id, or the number of many messages."""

    __slots__ = ("count", "id", "leases")

    def __init__(self) -> None:
        self.id: int | None = None
        self.count: int | None = None
        self.leases: Sequence[Lease] = ()

    def note(self, leases: Sequence[Lease]) -> None:
        """The call has claimed these."""
        self.count, self.leases = len(leases), leases


class _Unused(Result):
    """Without OpenTelemetry. All calls write to it, and nothing reads it."""

    __slots__ = ()

    def note(self, leases: Sequence[Lease]) -> None: ...


_UNUSED: Final = nullcontext(_Unused())


def sending(queue: str) -> AbstractContextManager[Result]:
    """A span of kind PRODUCER and its metrics, if the process has set providers for them.

    The messages carry the context of this span, since it is the active one within the block.
    """
    if not _is_imported():
        return _UNUSED
    return _recorded(ENQUEUE, names.SEND, queue, Result())


def receiving(queue: str) -> AbstractContextManager[Result]:
    """A span of kind CONSUMER, linked to the spans that enqueued the messages, and its metrics."""
    if not _is_imported():
        return _UNUSED
    return _recorded(CLAIM, names.RECEIVE, queue, Result())


def settling(verb: str, lease: LeaseLike) -> AbstractContextManager[Result]:
    """A span of kind CLIENT and its duration. The queue of an `(id, token)` is not known."""
    if not _is_imported():
        return _UNUSED
    result = Result()
    if isinstance(lease, Lease):
        result.id = lease.id
    elif isinstance(lease, tuple) and lease:
        result.id = lease[0]
    return _recorded(verb, names.SETTLE, _queue_of([lease]), result)


def settling_many(verb: str, leases: Sequence[LeaseLike]) -> AbstractContextManager[Result]:
    """The same for many leases, which may be of several queues."""
    if not _is_imported():
        return _UNUSED
    result = Result()
    result.count = 0
    return _recorded(verb, names.SETTLE, _queue_of(leases), result)


def _is_imported() -> bool:
    # A process that traces has imported it by now. Other processes avoid a slow import.
    return "opentelemetry.trace" in sys.modules or "opentelemetry.metrics" in sys.modules


def _queue_of(leases: Any) -> str | None:
    """The queue of all of them. The caller's arguments are not checked yet."""
    given = leases if isinstance(leases, Sequence) else ()
    queues = {each.queue if isinstance(each, Lease) else None for each in given}
    return queues.pop() if len(queues) == 1 else None


def _recorded(
    name: str, operation_type: str, queue: str | None, result: Result
) -> AbstractContextManager[Result]:
    tracer, instruments = _tracer(), _instruments()
    if tracer is None and instruments is None:
        return _UNUSED
    attributes: dict[str, Any] = names.attributes_of(queue, name, operation_type)
    return _in_span(tracer, instruments, attributes, result)


@contextmanager
def _in_span(
    tracer: Any, instruments: Any, attributes: dict[str, Any], result: Result
) -> Iterator[Result]:
    started = perf_counter()
    with _span(tracer, attributes) as span:
        try:
            yield result
        except Exception as error:
            attributes[names.ERROR_TYPE] = names.error_type(error)
            if span is not None:
                span.set_attribute(names.ERROR_TYPE, attributes[names.ERROR_TYPE])
            raise
        else:
            if span is not None:
                _describe(span, result)
        finally:
            if instruments is not None:
                _measure(instruments, perf_counter() - started, attributes, result)


def _measure(instruments: Any, seconds: float, attributes: dict[str, Any], result: Result) -> None:
    duration, messages = instruments
    duration.record(seconds, attributes)
    operation_type = attributes.pop(names.OPERATION_TYPE)  # not an attribute of the counters
    if operation_type == names.SEND:
        messages[operation_type].add(1 if result.count is None else result.count, attributes)
    elif operation_type == names.RECEIVE and result.count:
        messages[operation_type].add(result.count, attributes)


def _span(tracer: Any, attributes: dict[str, Any]) -> AbstractContextManager[Any]:
    if tracer is None:
        return nullcontext()
    from opentelemetry.trace import SpanKind

    kinds = {names.SEND: SpanKind.PRODUCER, names.RECEIVE: SpanKind.CONSUMER}
    found: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"{attributes[names.OPERATION_NAME]} {attributes.get(names.DESTINATION_NAME, '')}".rstrip(),
        kind=kinds.get(attributes[names.OPERATION_TYPE], SpanKind.CLIENT),
        attributes=attributes,
    )
    return found


def _describe(span: Any, result: Result) -> None:
    if result.id is not None:
        span.set_attribute(names.MESSAGE_ID, str(result.id))
    if result.count is not None:
        span.set_attribute(names.MESSAGE_COUNT, result.count)
    # Versions of OpenTelemetry before 1.23 cannot add a link to a span that has begun.
    add_link = getattr(span, "add_link", None)
    if add_link is not None and result.leases and span.is_recording():
        for lease in result.leases:
            if (enqueuer := context_of(lease.headers)) is not None:
                add_link(enqueuer)


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
def _made(provider: Any) -> tuple[Any, dict[str, Any]]:
    """The histogram of durations and the counters of messages. A provider is set once."""
    meter = provider.get_meter("penstock.client")
    duration = meter.create_histogram(
        names.OPERATION_DURATION,
        unit="s",
        description="Duration of a messaging operation of the client.",
        explicit_bucket_boundaries_advisory=names.SECONDS_BUCKETS,
    )
    sent = meter.create_counter(
        names.SENT_MESSAGES,
        unit="{message}",
        description="Messages that the client enqueued.",
    )
    consumed = meter.create_counter(
        names.CONSUMED_MESSAGES,
        unit="{message}",
        description="Messages that the client claimed.",
    )
    return duration, {names.SEND: sent, names.RECEIVE: consumed}
