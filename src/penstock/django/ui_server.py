"""The admin UI inside a Django process: an event loop in a thread that serves its pages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.db import forks
from penstock.db.loop_thread import LoopThread
from penstock.django.ui_access import DjangoAuthenticator, Visitor, current_visitor
from penstock.server.app import create_app
from penstock.server.context import Context
from penstock.server.settings import ServerSettings
from penstock.server.transport.dispatch import EntryApp

_POOL: Final = 4


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request as the pages see it: they are at the root of their site."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    address: str
    is_secure: bool

    def scope(self) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "https" if self.is_secure else "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "root_path": "",
            "headers": self.headers,
            "client": (self.address, 0),
            "server": None,
        }


@dataclass(frozen=True, slots=True)
class PageResponse:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class UiServer:
    """Serves pages from one database. Its connections are opened at the first request."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._thread = LoopThread("penstock-ui")
        self._app: EntryApp | None = None
        self._opening = asyncio.Lock()

    def answer(self, request: PageRequest, visitor: Visitor) -> PageResponse:
        """The whole response. For threads."""
        return self._thread.run(self._answer(request, visitor))

    async def stream(self, request: PageRequest, visitor: Visitor) -> AsyncIterator[bytes]:
        """The parts of a response without end. For another event loop than that of the pages."""
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()

        def put(part: bytes | None) -> None:
            loop.call_soon_threadsafe(parts.put_nowait, part)

        serving = asyncio.run_coroutine_threadsafe(
            self._stream(request, visitor, put), self._thread.loop
        )
        try:
            while (part := await parts.get()) is not None:
                yield part
        finally:
            serving.cancel()

    async def _answer(self, request: PageRequest, visitor: Visitor) -> PageResponse:
        start: dict[str, Any] = {}
        parts: list[bytes] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        await self._serve(request, visitor, send)
        headers = [(name.decode(), value.decode("latin-1")) for name, value in start["headers"]]
        return PageResponse(start["status"], headers, b"".join(parts))

    async def _stream(
        self, request: PageRequest, visitor: Visitor, put: Callable[[bytes | None], None]
    ) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.body" and message.get("body"):
                put(message["body"])

        try:
            await self._serve(request, visitor, send)
        finally:
            put(None)

    async def _serve(self, request: PageRequest, visitor: Visitor, send: Any) -> None:
        body: list[bytes] = [request.body]
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not body:
                await never.wait()
            return {"type": "http.request", "body": body.pop(), "more_body": False}

        current_visitor.set(visitor)
        app = await self._opened()
        await app(request.scope(), receive, send)

    async def _opened(self) -> EntryApp:
        async with self._opening:
            if self._app is None:
                settings = ServerSettings(pool=_POOL, access_log="off", upkeep="off")
                context = Context(self._dsn, settings)
                context.auth = DjangoAuthenticator(context.database, settings.auth_failures)
                await context.open()
                self._context = context
                self._app = create_app(context, has_api=False)
        return self._app

    def close(self) -> None:
        if self._app is not None:
            self._thread.run(self._context.close())
        self._thread.close()


class UiServers:
    """The servers of this process, by DSN."""

    def __init__(self) -> None:
        self._start()
        forks.register(self)

    def _start(self) -> None:
        self._servers: dict[str, UiServer] = {}
        self._lock = threading.Lock()

    def _after_fork(self) -> None:
        """In a child process: forget the parent's threads, which do not run here."""
        forks.abandon(self._servers)
        self._start()

    def get(self, dsn: str) -> UiServer:
        with self._lock:
            if dsn not in self._servers:
                self._servers[dsn] = UiServer(dsn)
            return self._servers[dsn]

    def close(self) -> None:
        """Close the connections of all of them."""
        with self._lock:
            for server in self._servers.values():
                server.close()
            self._servers.clear()


servers: Final = UiServers()
