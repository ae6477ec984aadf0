"""Which handler serves which message of a queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.tasks.task import TASK_HEADER, Task
from penstock.worker.delivery import Delivery
from penstock.worker.retry import RetryPolicy
from penstock.worker.task_handlers import UnknownTasks

Function: TypeAlias = Callable[[Delivery], Any]
Call: TypeAlias = Callable[[Delivery], Coroutine[Any, Any, Any]]

# Header texts whose handler is cached.
_MOST_HEADERS: Final = 1000
_LONGEST_HEADERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function and its options. None stands for the setting of the worker or the queue."""

    queue: str
    function: Function
    is_async: bool
    concurrency: int | None
    timeout: float | None
    lease_seconds: int | None
    retry: RetryPolicy
    keeps_result: bool = False
    task: Task[..., Any] | None = None


class QueueHandlers:
    """The handlers of a queue: one for plain messages, tasks by name, or both."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.plain: Handler | None = None
        self.tasks: dict[str, Handler] = {}
        # Calls of a task mostly have the same headers, so they are decoded once.
        self._by_headers: dict[str, Handler] = {}
        self._unknown = Handler(
            queue=queue,
            function=UnknownTasks(),
            is_async=True,
            concurrency=None,
            timeout=None,
            lease_seconds=None,
            retry=RetryPolicy(),
        )

    def on_thread_end(self) -> None:
        """For subclasses: called in each thread of its handlers, before the thread ends."""

    def __iter__(self) -> Iterator[Handler]:
        return iter([*([] if self.plain is None else [self.plain]), *self.tasks.values()])

    def find(self, delivery: Delivery) -> Handler:
        """The handler of a message."""
        if not self.tasks:
            return self.plain or self._unknown
        text = delivery._headers_text
        handler = self._by_headers.get(text)
        if handler is None:
            handler = self._find(delivery)
            if len(self._by_headers) >= _MOST_HEADERS:
                self._by_headers.clear()
            if handler is not self._unknown and len(text) <= _LONGEST_HEADERS:
                self._by_headers[text] = handler
        return handler

    def _find(self, delivery: Delivery) -> Handler:
        name = delivery.headers.get(TASK_HEADER)
        if name is None:
            return self.plain or self._unknown
        return self.tasks.get(name, self._unknown) if isinstance(name, str) else self._unknown

    @property
    def concurrency(self) -> int | None:
        """The largest concurrency of the handlers, or None."""
        return max((each.concurrency for each in self if each.concurrency), default=None)

    @property
    def lease_seconds(self) -> int | None:
        """The longest lease of the handlers, or None."""
        return max((each.lease_seconds for each in self if each.lease_seconds), default=None)
