"""The registry: which handler serves which queue, and what is wrapped around it."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from penstock import arguments as check
from penstock.errors import ConfigurationError
from penstock.message import Duration
from penstock.worker.delivery import Delivery
from penstock.worker.retry import RetryPolicy

Function: TypeAlias = Callable[[Delivery], Any]
Call: TypeAlias = Callable[[Delivery], Coroutine[Any, Any, Any]]
Middleware: TypeAlias = Callable[[Delivery, Call], Coroutine[Any, Any, Any]]
F = TypeVar("F", bound=Function)
M = TypeVar("M", bound=Middleware)

_QUEUE: Final = re.compile(r"[a-z0-9._-]{1,128}")
MAX_CONCURRENCY: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function and how it is to be run. None: what the worker says, or the queue."""

    queue: str
    function: Function
    is_async: bool
    concurrency: int | None
    timeout: float | None
    lease_seconds: int | None
    retry: RetryPolicy


class App:
    """The handlers of an application, by queue.

        app = App()

        @app.handler("emails")
        async def send(message):
            await mail(message.payload["to"])

    `penstock worker module:app` runs them; so does `Worker(app)`.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._middleware: list[Middleware] = []

    def handler(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        lease_seconds: Duration | None = None,
        retry: RetryPolicy | None = None,
    ) -> Callable[[F], F]:
        """Serve a queue with the decorated function, async or not; it is given a Delivery.

        `concurrency`: how many messages of the queue are worked on at once; `timeout`: after which
        a run has failed; `lease_seconds`: instead of the queue's own, extended while it runs.
        """

        def register(function: F) -> F:
            if queue in self._handlers:
                other = _name(self._handlers[queue].function)
                raise ConfigurationError(
                    f"queue {queue!r} has a handler already: {other}",
                    hint="A queue has one handler in a process; let it choose by the payload.",
                )
            self._handlers[queue] = handler(function)
            return function

        def handler(function: Function) -> Handler:
            return Handler(
                queue=_queue(queue),
                function=_function(function),
                is_async=_is_async(function),
                concurrency=None if concurrency is None else _concurrency(concurrency),
                timeout=_timeout(timeout),
                lease_seconds=_lease_seconds(lease_seconds),
                retry=_retry(retry),
            )

        return register

    def middleware(self, function: M) -> M:
        """Wrap every handler, sync ones too: `async def around(delivery, call_next)`.

        The first one registered is the outermost.
        """
        if not _is_async(function):
            raise check.refuse("middleware", function, "an async function (delivery, call_next)")
        self._middleware.append(function)
        return function

    @property
    def queues(self) -> list[str]:
        return list(self._handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __getitem__(self, queue: str) -> Handler:
        try:
            return self._handlers[queue]
        except KeyError:
            raise self._unknown(queue) from None

    def wrap(self, call: Call) -> Call:
        """The middleware around a handler."""
        for each in reversed(self._middleware):
            call = _around(each, call)
        return call

    def _unknown(self, queue: str) -> ConfigurationError:
        near = difflib.get_close_matches(queue, self._handlers, 1)
        known = ", ".join(self._handlers) or "none"
        meant = f"Did you mean {near[0]!r}?" if near else f"There are handlers for: {known}."
        return ConfigurationError(f"there is no handler for queue {queue!r}", hint=meant)


def _around(middleware: Middleware, call: Call) -> Call:
    return lambda delivery: middleware(delivery, call)


def _queue(queue: Any) -> str:
    if not isinstance(queue, str) or not _QUEUE.fullmatch(queue):
        allowed = "the name of a queue: 1 to 128 of lowercase letters, digits, - _ and ."
        raise check.refuse("queue", queue, allowed)
    return queue


def _function(function: Any) -> Function:
    if not callable(function):
        raise check.refuse("handler", function, "a function that takes one delivery")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise check.refuse("handler", function, "a function without yield")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise check.refuse("handler", function, "a function that takes one delivery") from None
    except ValueError:  # a builtin that does not tell
        pass
    return function  # type: ignore[no-any-return]


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - is it async, not: is it there
    )


def _concurrency(value: Any) -> int:
    if not 1 <= check.whole("concurrency", value) <= MAX_CONCURRENCY:
        raise check.refuse("concurrency", value, f"1 to {MAX_CONCURRENCY}")
    return int(value)


def _timeout(value: Duration | None) -> float | None:
    if value is None:
        return None
    seconds = check.duration("timeout", value).total_seconds()
    if seconds <= 0:
        raise check.refuse("timeout", value, "more than 0 seconds")
    return seconds


def _lease_seconds(value: Duration | None) -> int | None:
    seconds = check.whole_seconds("lease_seconds", value)
    if seconds is not None and not 1 <= seconds <= 43_200:
        raise check.refuse("lease_seconds", value, "1 to 43200 seconds")
    return seconds


def _retry(value: Any) -> RetryPolicy:
    if value is None:
        return RetryPolicy()
    if not isinstance(value, RetryPolicy):
        raise check.refuse("retry", value, "a RetryPolicy")
    return value


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
