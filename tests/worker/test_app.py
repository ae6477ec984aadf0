"""The registry: what is wrong with a handler is said where it is registered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ConfigurationError, InvalidValueError
from penstock.model.queue import Backoff
from penstock.worker import App, Delivery, Reject, Retry, RetryPolicy, Snooze, Worker
from penstock.worker.retry import delay


async def good(message: Delivery) -> None:
    pass


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queue": "Emails"}, "the name of a queue"),
        ({"queue": "e" * 129}, "the name of a queue"),
        ({"queue": None}, "the name of a queue"),
        ({"concurrency": 0}, "1 to 10000"),
        ({"concurrency": True}, "a whole number"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"timeout": "soon"}, "a timedelta or a number of seconds"),
        ({"lease_seconds": 0}, "1 to 43200 seconds"),
        ({"lease_seconds": 1.5}, "whole seconds"),
        ({"retry": 3}, "a RetryPolicy"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(options: Any, says: str) -> None:
    queue = options.pop("queue", "emails")
    with pytest.raises(InvalidValueError, match=says):
        App().handler(queue, **options)(good)


def yields(message: Delivery) -> Any:
    yield message


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None, "send", yields])
def test_what_cannot_handle_a_delivery_is_refused(function: Any) -> None:
    with pytest.raises(InvalidValueError, match="a function"):
        App().handler("emails")(function)


def test_a_queue_has_one_handler() -> None:
    app = App()
    app.handler("emails")(good)
    with pytest.raises(ConfigurationError, match="has a handler already: good"):
        app.handler("emails")(good)


class Sender:
    async def __call__(self, message: Delivery) -> None:
        pass


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (good, True),
        (functools.partial(good), True),
        (Sender(), True),
        (lambda message: None, False),
        (print, False),
    ],
)
def test_async_handlers_are_told_from_others(function: Callable[..., Any], is_async: bool) -> None:
    app = App()
    app.handler("emails")(function)
    assert [each.is_async for each in app["emails"]] == [is_async]


def test_middleware_must_be_async() -> None:
    with pytest.raises(InvalidValueError, match="an async function"):
        App().middleware(lambda delivery, call_next: None)  # type: ignore[arg-type, return-value]


def test_an_unknown_queue_is_answered_with_the_nearest() -> None:
    app = App()
    app.handler("emails")(good)
    with pytest.raises(ConfigurationError, match="Did you mean 'emails'"):
        Worker(app, queues=["email"])
    with pytest.raises(ConfigurationError, match="has no handlers"):
        Worker(App())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(after=-1),
        lambda: Snooze(-1),
        lambda: Snooze(10**12),
        lambda: Retry(after="soon"),
        lambda: Reject(reason=5),
        lambda: RetryPolicy(max_attempts=0),
        lambda: RetryPolicy(reject=ValueError),
        lambda: RetryPolicy(backoff=5),
    ],
)
def test_an_outcome_that_cannot_be_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidValueError, match="allowed"):
        make()


def test_a_backoff_in_python_is_that_of_the_database() -> None:
    def seconds(attempt: int, **options: Any) -> float:
        return delay(Backoff(jitter=0, **options), attempt).total_seconds()

    assert [seconds(n) for n in (1, 2, 5, 99)] == [1, 2, 16, 3600]
    assert [seconds(n, kind="linear", base_seconds=3) for n in (1, 2, 5)] == [3, 6, 15]
    assert [seconds(n, kind="constant", base_seconds=3) for n in (1, 2, 5)] == [3, 3, 3]
    assert 0.5 <= delay(Backoff(jitter=0.5), 1).total_seconds() <= 1
