"""Checks of the arguments of `App`. Each raises an InvalidValueError that names allowed values."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.commands import arguments as check
from penstock.model.message import Duration
from penstock.worker.delivery import Delivery
from penstock.worker.retry import RetryPolicy

_QUEUE: Final = re.compile(r"[a-z0-9._-]{1,128}")
MAX_CONCURRENCY: Final = 10_000


def calling_module() -> str:
    """The name of the module that makes an App, also where it is the main program."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    found: dict[str, Any] = {} if frame is None else frame.f_globals
    name = str(found.get("__name__", "app"))
    if name != "__main__":
        return name
    spec = found.get("__spec__")
    return spec.name if spec is not None else Path(found.get("__file__", "app")).stem


def queue_name(queue: Any) -> str:
    if not isinstance(queue, str) or not _QUEUE.fullmatch(queue):
        allowed = "the name of a queue: 1 to 128 lowercase letters, digits, -, _ and ."
        raise check.refuse("queue", queue, allowed)
    return queue


def handler_function(function: Any) -> Callable[[Delivery], Any]:
    if not callable(function):
        raise check.refuse("handler", function, "a function that takes one delivery")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise check.refuse("handler", function, "a function without yield")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise check.refuse("handler", function, "a function that takes one delivery") from None
    except ValueError:  # a builtin without a signature
        pass
    return function  # type: ignore[no-any-return]


def keep_seconds(value: bool | Duration) -> int | None:
    if isinstance(value, bool):
        return 86_400 if value else None
    seconds = check.whole_seconds("keep_result", value)
    if seconds is None or not 1 <= seconds <= 315_360_000:
        raise check.refuse("keep_result", value, "True, False, or 1 second to 10 years")
    return seconds


def task_function(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise check.refuse("task", function, "a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise check.refuse("task", function, "a function without yield")
    return function  # type: ignore[no-any-return]


def is_async_function(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - is it async, not: is it there
    )


def concurrency_of(value: Any) -> int:
    if not 1 <= check.whole("concurrency", value) <= MAX_CONCURRENCY:
        raise check.refuse("concurrency", value, f"1 to {MAX_CONCURRENCY}")
    return int(value)


def timeout_seconds(value: Duration | None) -> float | None:
    if value is None:
        return None
    seconds = check.duration("timeout", value).total_seconds()
    if seconds <= 0:
        raise check.refuse("timeout", value, "more than 0 seconds")
    return seconds


def lease_seconds_of(value: Duration | None) -> int | None:
    seconds = check.whole_seconds("lease_seconds", value)
    if seconds is not None and not 1 <= seconds <= 43_200:
        raise check.refuse("lease_seconds", value, "1 to 43200 seconds")
    return seconds


def retry_policy(value: Any) -> RetryPolicy:
    if value is None:
        return RetryPolicy()
    if not isinstance(value, RetryPolicy):
        raise check.refuse("retry", value, "a number of attempts or a RetryPolicy")
    return value


def attempts_of(value: Any) -> int:
    if isinstance(value, bool) or not 1 <= value <= 100:
        raise check.refuse("retry", value, "a number of attempts from 1 to 100, or a RetryPolicy")
    return int(value)


def priority_of(value: Any) -> int:
    if not -9 <= check.whole("priority", value) <= 9:
        raise check.refuse("priority", value, "a whole number from -9 to 9")
    return int(value)


def ttl_of(value: Duration | None) -> Duration | None:
    if value is not None and check.duration("ttl", value).total_seconds() <= 0:
        raise check.refuse("ttl", value, "more than 0 seconds")
    return value
