"""Threads for handlers that are not async.

Not a ThreadPoolExecutor, because Python waits for its threads at exit, and a hanging handler would
keep the process from ending. These are daemon threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

_Job: TypeAlias = tuple[
    contextvars.Context, Callable[[Any], Any], Any, asyncio.AbstractEventLoop, "asyncio.Future[Any]"
]


class ThreadCaller(Protocol):
    """Calls handlers that are not async."""

    @property
    def busy(self) -> int:
        """Calls that have not ended, including those whose caller no longer waits."""

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Return the function's result."""

    def close(self) -> None:
        """Stop accepting calls."""


class Threads:
    """As many threads as were ever busy at once. They are reused."""

    def __init__(self, name: str, on_free: Callable[[], None], on_end: Callable[[], None]) -> None:
        self._name = name
        self._on_free = on_free
        self._on_end = on_end
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call the function in a thread with a copy of this task's context."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._busy += 1
        if self._busy > len(self._threads):
            self._grow()
        self._jobs.put((contextvars.copy_context(), function, argument, loop, future))
        # The thread continues after its caller was cancelled. The shield lets us see its end.
        future.add_done_callback(self._freed)
        return await asyncio.shield(future)

    def close(self) -> None:
        """Let idle threads end. Busy threads end after their call, or with the process."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads.clear()

    @property
    def busy(self) -> int:
        """Running threads, including those whose caller no longer waits."""
        return self._busy

    def _freed(self, future: asyncio.Future[Any]) -> None:
        self._busy -= 1
        if not future.cancelled():
            future.exception()  # mark the exception as retrieved, even without a caller
        self._on_free()

    def _grow(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            context, function, argument, loop, future = job
            try:
                result = context.run(function, argument)
            except BaseException as error:
                _tell(loop, future, None, error)
            else:
                _tell(loop, future, result, None)
            del job, context, argument, future
        self._on_end()


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: Any,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future does not accept this exception
            future.set_exception(RuntimeError("the handler raised StopIteration"))
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed: the worker has already ended
        loop.call_soon_threadsafe(settle)
