"""HTTP/1.1 as uvicorn reads it, with limits where it has none, and with shortcuts.

A head that comes slowly or grows too large, and connections beyond what the process can hold, are
closed before they cost anything. A response that is complete goes out in one write.

This is the only module that uses internals of uvicorn. With `PENSTOCK_FAST_PATHS=off` the server
runs on uvicorn's own protocol: no request has a cycle then, and each function here says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from starlette.types import Receive, Send
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from penstock.server.settings import ServerSettings

# Where the scope of a request has uvicorn's own record of it.
_CYCLE: Final = "penstock.cycle"
MAX_HEAD_BYTES: Final = 64 * 1024
_SMALL: Final = 16 * 1024
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


class Taker(Protocol):
    """Who may take requests that have arrived as a whole."""

    def take(self, scope: Any, begin_task: Callable[[], None]) -> bool:
        """Whether it is taken. If not, or if it turns out to need more, a task does it."""


class Guarded(HttpToolsProtocol):
    """One connection."""

    max_connections: ClassVar[int] = 20_000
    head_seconds: ClassVar[float] = 60
    taker: ClassVar[Taker]

    @classmethod
    def limited(cls, settings: ServerSettings, taker: Taker) -> type[Guarded]:
        """The protocol with these limits."""
        limits = {
            "max_connections": settings.max_connections,
            "head_seconds": settings.idle_seconds,
            "taker": taker,
        }
        return type("Limited", (cls,), limits)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._receiving = False
        self._begun: RequestResponseCycle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.write(_BUSY)
            transport.close()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle_since = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._receiving = True
        try:
            super().data_received(data)
        finally:
            self._receiving = False
        if self._begun is not None:
            cycle, self._begun = self._begun, None
            task = partial(self._start_asgi_task, cycle, self.app)
            if cycle.more_body or not self.taker.take(cycle.scope, task):
                task()
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._idle_since = None
        super().on_headers_complete()
        self.scope[_CYCLE] = self.cycle  # type: ignore[typeddict-unknown-key]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Not before all is read that has come: what is whole by then may need no task."""
        if self._receiving:
            self._begun = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """As uvicorn's, which sets a timer after each answer and cancels it at the next request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._await_head()

    def _await_head(self) -> None:
        """From now on. The timer of a connection runs on over requests: it looks when it is due."""
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.head_seconds, self._look)

    def _look(self) -> None:
        self._idle_timer = None
        if self._idle_since is None or self.transport.is_closing():
            return
        left = self._idle_since + self.head_seconds - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._look)
        else:
            self.transport.close()


def is_gone(scope: Any) -> bool:
    """Whether the caller has closed its connection. Without a cycle that is not known."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    return cycle is not None and bool(cycle.disconnected)


def channels(scope: Any) -> tuple[Receive, Send]:
    """Where a request is received and its response sent, for a request without a task."""
    cycle: RequestResponseCycle = scope[_CYCLE]
    return cycle.receive, cycle.send  # type: ignore[return-value]  # the same as Starlette's types


def abort(scope: Any) -> None:
    """Close the connection of a request that cannot be answered."""
    scope[_CYCLE].transport.close()


def release(scope: Any) -> None:
    """End the reference of a request to uvicorn's record, which refers to it, too.

    So both are freed at once, and not left to the garbage collector.
    """
    scope.pop(_CYCLE, None)


def is_whole(scope: Any) -> bool:
    """Whether all of a request has arrived, so that reading it takes no time."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    return cycle is not None and not cycle.more_body


def take_small(scope: Any, most: int) -> bytes | None:
    """A body that has arrived as a whole; None, and nothing is taken, where it has to be received.

    Above 64 KiB uvicorn stops reading from the connection, and `receive` lets it go on.
    """
    body = look_at_small(scope, most)
    if body is not None:
        cycle: RequestResponseCycle = scope[_CYCLE]
        cycle.body.clear()
        cycle.message_event.clear()
    return body


def look_at_small(scope: Any, most: int) -> bytes | None:
    """The same, and it is left there to be received."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    if cycle is None or cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    return bytes(cycle.body) if len(cycle.body) <= min(most, _SMALL) else None


def send_whole(scope: Any, head: bytes, status: int, body: bytes) -> bool:
    """Send a whole answer in one write, or nothing where that cannot be.

    What uvicorn does in two steps, each with its checks, takes as long as the rest of the answer.
    """
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    if cycle is None or cycle.flow.write_paused or cycle.disconnected or scope["method"] == "HEAD":
        return False
    parts = [STATUS_LINE[status]]
    for name, value in cycle.default_headers:
        parts += name, b": ", value, b"\r\n"
    parts += head, b"" if cycle.keep_alive else b"connection: close\r\n", b"\r\n", body
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"".join(parts))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True
