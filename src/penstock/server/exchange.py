"""Around every request: its id, its line in the log, its count in the metrics, gzip, the last no.

Written on bare ASGI: as Starlette's middleware classes the same cost more than the request itself.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log: Final = logging.getLogger("penstock.server")
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_GZIP_FROM: Final = 1000


class Exchange:
    """One request and its answer, as the log tells of it."""

    __slots__ = (
        "actor",
        "gzip",
        "held",
        "peer",
        "request_id",
        "route",
        "sent",
        "started",
        "status",
        "waited",
    )

    def __init__(self, scope: Scope) -> None:
        self.started = time.perf_counter()
        self.request_id = ""
        self.gzip = False
        self.peer = (scope.get("client") or ("unknown",))[0]
        self.route = ""
        self.actor: str | None = None
        self.status = 0
        self.sent = 0
        self.waited = 0.0
        self.held: Message | None = None
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                self.request_id = value.decode("ascii")
            elif name == b"accept-encoding" and b"gzip" in value:
                self.gzip = True
        self.request_id = self.request_id or secrets.token_hex(8)


class Exchanges:
    """The outermost application."""

    def __init__(self, app: ASGIApp, finished: Callable[[Scope, Exchange], None]) -> None:
        self._app = app
        self._finished = finished

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = scope["exchange"] = Exchange(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"].append((b"x-request-id", exchange.request_id.encode()))
                exchange.held = message
                return
            if exchange.held is not None:
                start, exchange.held = exchange.held, None
                if exchange.gzip:
                    _compress(start, message)
                await send(start)
            exchange.sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception:
            # Whatever was sent by now, the connection is of no use; uvicorn closes it.
            log.exception("request %s failed", exchange.request_id)
            exchange.status = exchange.status or 500
            raise
        finally:
            self._finished(scope, exchange)


def _compress(start: Message, message: Message) -> None:
    """A whole body of some size, of a kind that shrinks; a stream is left as it is."""
    body = message.get("body", b"")
    if message.get("more_body") or len(body) < _GZIP_FROM:
        return
    headers = {name.lower(): value for name, value in start["headers"]}
    kind = headers.get(b"content-type", b"")
    if b"content-encoding" in headers or not (b"json" in kind or kind.startswith(b"text/")):
        return
    packer = zlib.compressobj(4, zlib.DEFLATED, 31)
    message["body"] = packer.compress(body) + packer.flush()
    length = str(len(message["body"])).encode()
    start["headers"] = [
        *((name, value) for name, value in start["headers"] if name.lower() != b"content-length"),
        (b"content-length", length),
        (b"content-encoding", b"gzip"),
        (b"vary", b"accept-encoding"),
    ]


class AccessLog:
    """JSON lines on stderr, written out a few times a second: a write for each costs 10 us."""

    def __init__(self, write: Callable[[str], Any] | None = None) -> None:
        self._write = write or _to_stderr
        self._lines: list[str] = []

    def add(self, scope: Scope, exchange: Exchange) -> None:
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": exchange.request_id,
            "peer": exchange.peer,
            "actor": exchange.actor,
            "method": scope["method"],
            # Not the query: it may hold what is nobody's business.
            "path": scope["path"],
            "status": exchange.status,
            "bytes": exchange.sent,
            "ms": round((time.perf_counter() - exchange.started) * 1000, 2),
        }
        self._lines.append(json.dumps(line))
        if len(self._lines) >= 1000:
            self.flush()

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._write("\n".join(lines) + "\n")


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
