"""HTTP/1.1 on uvicorn, with additional limits and shortcuts.

Connections with a slow or oversized request head, connections above the limit of the process, and
those whose caller does not read are closed early. A complete response is sent in one write.

With `PENSTOCK_FAST_PATHS=off` the server runs on uvicorn's own protocol. Then no request has a
cycle, and the functions here report that. Apart from this module, only the class `Server` in
serving.py depends on uvicorn's structure: it overrides methods of `uvicorn.Server` for signals and
for the end of the process, in both settings.
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

# The key of uvicorn's record of a request in its scope.
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
    """A handler of requests that have arrived completely."""

    def take(self, scope: Any, begin_task: Callable[[], None]) -> bool:
        """Whether it handles the request. Otherwise a task does."""


class Unsent(Protocol):
    """The number of bytes that callers have not read yet, on all connections."""

    bytes: int


class Guarded(HttpToolsProtocol):
    """One connection."""

    max_connections: ClassVar[int] = 20_000
    head_seconds: ClassVar[float] = 60
    write_seconds: ClassVar[float] = 30
    taker: ClassVar[Taker]
    answers: ClassVar[Unsent]

    @classmethod
    def limited(cls, settings: ServerSettings, taker: Taker, answers: Unsent) -> type[Guarded]:
        """The protocol class with these limits."""
        limits = {
            "max_connections": settings.max_connections,
            "head_seconds": settings.idle_seconds,
            "write_seconds": settings.write_seconds,
            "taker": taker,
            "answers": answers,
        }
        return type("Limited", (cls,), limits)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._receiving = False
        # The write buffer while it is above the transport's limit, and the timer that looks at it.
        self._unsent = 0
        self._unsent_timer: asyncio.TimerHandle | None = None
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
        self._count_unsent(0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The transport calls it when the caller reads more slowly than the server writes."""
        super().pause_writing()
        self._count_unsent(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._count_unsent(0)

    def _count_unsent(self, count: int) -> None:
        self.answers.bytes += count - self._unsent
        self._unsent = count
        if self._unsent_timer is not None:
            self._unsent_timer.cancel()
            self._unsent_timer = None
        if count:
            self._unsent_timer = self.loop.call_later(self.write_seconds, self._look_at_unsent)

    def _look_at_unsent(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left < self._unsent:
            self._count_unsent(left)
        else:
            self.transport.abort()

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
        """Runs after all received bytes are read, because a complete request may need no task."""
        if self._receiving:
            self._begun = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Like uvicorn's method, which sets a timer after each response and cancels it later."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._await_head()

    def _await_head(self) -> None:
        """Start the idle time. The timer of a connection is not reset, but checks when it fires."""
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
        elif self.transport.get_write_buffer_size():
            self.transport.abort()  # closing waits until the caller has read the rest
        else:
            self.transport.close()


def is_gone(scope: Any) -> bool:
    """Whether the caller has closed its connection. Unknown without a cycle."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    return cycle is not None and bool(cycle.disconnected)


def channels(scope: Any) -> tuple[Receive, Send]:
    """The receive and send functions of a request without a task."""
    cycle: RequestResponseCycle = scope[_CYCLE]
    return cycle.receive, cycle.send  # type: ignore[return-value]  # the same as Starlette's types


def abort(scope: Any) -> None:
    """Close the connection of a request that cannot be answered."""
    scope[_CYCLE].transport.close()


def release(scope: Any) -> None:
    """Remove the reference of a request to uvicorn's record, which refers to the request.

    Then both are freed at once, without the garbage collector.
    """
    scope.pop(_CYCLE, None)


def is_whole(scope: Any) -> bool:
    """Whether a request has arrived completely."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    return cycle is not None and not cycle.more_body


def take_small(scope: Any, most: int) -> bytes | None:
    """The body, if it has arrived completely. Otherwise None, and nothing is consumed.

    Above 64 KiB uvicorn stops reading from the connection, and `receive` lets it continue.
    """
    body = look_at_small(scope, most)
    if body is not None:
        cycle: RequestResponseCycle = scope[_CYCLE]
        cycle.body.clear()
        cycle.message_event.clear()
    return body


def look_at_small(scope: Any, most: int) -> bytes | None:
    """The same body, which stays to be received."""
    cycle: RequestResponseCycle | None = scope.get(_CYCLE)
    if cycle is None or cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
        return None
    return bytes(cycle.body) if len(cycle.body) <= min(most, _SMALL) else None


def send_whole(scope: Any, head: bytes, status: int, body: bytes) -> bool:
    """Send a complete response in one write, if that is possible.

    uvicorn's two steps with their checks take as long as the rest of the response.
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
