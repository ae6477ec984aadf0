"""Spans and metrics of runs have the names of OpenTelemetry's conventions for messaging."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes

from penstock.commands import semantic_conventions as names
from penstock.worker import Reject, Retry, Snooze
from penstock.worker.process_metrics import measured


def published(module: Any, prefix: str) -> set[str]:
    return {value for name, value in vars(module).items() if name.startswith(prefix)}


def test_the_names_are_in_the_published_registry() -> None:
    used = {value for name, value in vars(names).items() if name.isupper()}
    messaging = {name for name in used if isinstance(name, str) and "." in name}
    registry = published(messaging_attributes, "MESSAGING_") | {error_attributes.ERROR_TYPE}
    registry |= published(messaging_metrics, "MESSAGING_")
    assert len(messaging) == 11
    assert messaging <= registry
    types = {each.value for each in messaging_attributes.MessagingOperationTypeValues}
    assert {names.SEND, names.RECEIVE, names.PROCESS, names.SETTLE} <= types
    # Names that the registry has marked as outdated.
    assert not messaging & {"messaging.operation", "messaging.process.messages"}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    made = InMemoryMetricReader()
    provider = MeterProvider([made])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    return made


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    [resource] = data.resource_metrics
    [scope] = resource.scope_metrics
    return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


class Delivered:
    """As much of a delivery as is measured."""

    queue = "orders"


async def test_runs_are_measured_by_queue_and_error(reader: InMemoryMetricReader) -> None:
    ends: list[Any] = [None, Snooze(5), Retry(error="x"), Reject("y"), ValueError("z")]

    async def handler(delivery: Any) -> Any:
        ended = ends.pop(0)
        if isinstance(ended, ValueError | Reject):
            raise ended
        return ended

    call = measured("orders", handler)
    for _ in range(3):
        await call(Delivered())  # type: ignore[arg-type]
    for error in (Reject, ValueError):
        with pytest.raises(error):
            await call(Delivered())  # type: ignore[arg-type]
    found = points(reader)
    assert set(found) == {names.PROCESS_DURATION, names.CONSUMED_MESSAGES}
    counts = {
        each.attributes.get(names.ERROR_TYPE): each for each in found[names.CONSUMED_MESSAGES]
    }
    assert {name: each.value for name, each in counts.items()} == {
        None: 2,
        "penstock.worker.outcomes.Retry": 1,
        "penstock.worker.outcomes.Reject": 1,
        "ValueError": 1,
    }
    assert dict(counts[None].attributes) == {
        names.SYSTEM: "penstock",
        names.OPERATION_NAME: "process",
        names.DESTINATION_NAME: "orders",
    }
    [quick] = [p for p in found[names.PROCESS_DURATION] if names.ERROR_TYPE not in p.attributes]
    assert quick.count == 2
    assert tuple(quick.explicit_bounds) == names.SECONDS_BUCKETS


def test_nothing_is_measured_without_a_provider() -> None:
    async def handler(delivery: Any) -> None: ...

    assert measured("orders", handler) is handler
