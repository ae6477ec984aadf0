"""The outermost ASGI application. Every request passes through it.

It adds the request id, the access log, metrics, gzip and the handling of unexpected errors. Calls
of the API go directly to their endpoints, other paths to Starlette. As middleware and routes of
Starlette the same would take longer than the request itself.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import QueueNotFoundError
from penstock.server.context import Context
from penstock.server.transport.cors import Cors
from penstock.server.transport.exchange import Exchange, log
from penstock.server.transport.path_prefix import PathPrefix
from penstock.server.transport.path_tree import Paths
from penstock.server.transport.problems import HttpError
from penstock.server.transport.protocol import abort, channels, release, send_whole
from penstock.server.transport.request_bodies import Disconnected
from penstock.server.transport.routing import (
    Call,
    Endpoint,
    Pending,
    Reply,
    encoded,
    headers_of,
    other_method,
    problem_reply,
    without_slash,
)
from penstock.server.transport.unsent_answers import LARGE_BYTES, UnsentAnswers

_GZIP_FROM: Final = 1000
# Only for the log and the metrics, because the caller has gone. nginx uses the same number.
CALLER_GONE: Final = 499
_HEAD: Final = b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n"


class EntryApp:
    """`app` has the lifespan, the pages, and the response for unknown paths."""

    def __init__(
        self,
        context: Context,
        paths: Paths[Endpoint],
        app: ASGIApp,
        finished: Callable[[Scope, Exchange], None],
    ) -> None:
        self._context = context
        self._paths = paths
        self._app = app
        self._finished = finished
        self._prefix = PathPrefix(context.settings.path_prefix)
        self._cors = Cors(context.settings.cors_origins)
        self._sending: set[asyncio.Task[None]] = set()

    def _exchange(self, scope: Scope) -> Exchange:
        return Exchange(scope, self._context.settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = scope["exchange"] = scope.get("exchange") or self._exchange(scope)
        scope["path"] = self._prefix.strip(scope["path"])
        try:
            found = self._paths.find(scope["path"])
            if found is None:
                if self._paths.find(scope["path"].rstrip("/")) is not None:
                    await self._reply(scope, send, without_slash(scope))
                    return
                await self._app(scope, receive, _answering(exchange, send, self._prefix))
                return
            methods, scope["path_params"] = found
            endpoint = methods.get(scope["method"])
            if endpoint is None:
                reply = self._cors.preflight(exchange, methods) if self._cors else None
                await self._reply(scope, send, reply or other_method(methods, scope))
                return
            await self._reply(scope, send, await endpoint.answer(self._context, scope, receive))
        except Disconnected:
            exchange.status = CALLER_GONE
        except Exception:
            # The response may be incomplete, so uvicorn closes the connection.
            log.exception("request %s failed", exchange.request_id)
            exchange.status = exchange.status or 500
            raise
        finally:
            self._finish(scope)

    def take(self, scope: Scope, begin_task: Callable[[], None]) -> bool:
        """Handle a request that has arrived completely, if its endpoint needs no task.

        A task takes 7 us, a fifth of Python's time for an enqueue. In unusual cases nothing is
        done here, and a task handles the request.
        """
        path = self._prefix.strip(scope["path"])
        found = self._paths.find(path)
        endpoint = None if found is None else found[0].get(scope["method"])
        if found is None or endpoint is None or not endpoint.may_begin:
            return False
        scope["exchange"] = self._exchange(scope)
        scope["path_params"] = found[1]
        try:
            begun = endpoint.begin(self._context, scope)
        except Exception:
            return False
        if begun is None:
            return False
        scope["path"] = path
        call, pending = begun

        def end(future: asyncio.Future[Any]) -> None:
            self._context.bodies.leave(call.raw)
            if isinstance(future.exception(), QueueNotFoundError):
                begin_task()
            else:
                self._end(endpoint, call, pending)

        pending.future.add_done_callback(end)
        return True

    def _end(self, endpoint: Endpoint, call: Call, pending: Pending) -> None:
        """Send the response of a request without a task."""
        scope, exchange = call.scope, call.exchange
        try:
            error = pending.future.exception()
            try:
                if error is None:
                    reply = endpoint.reply(pending.finish(call, pending.future.result()))
            except HttpError as refused:
                error = refused
            if error is not None:
                reply = endpoint.refusal(self._context, error, exchange)
            if self._cors:
                reply = self._cors.allow(exchange, reply)
            if not _send_at_once(scope, reply, encoded(reply)):
                sending = asyncio.ensure_future(self._send(scope, reply))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)
                return
        except Exception:
            log.exception("request %s failed", exchange.request_id)
            exchange.status = exchange.status or 500
            abort(scope)
        self._finish(scope)

    async def _send(self, scope: Scope, reply: Reply) -> None:
        try:
            await self._reply(scope, channels(scope)[1], reply)
        finally:
            self._finish(scope)

    async def _reply(self, scope: Scope, send: Send, reply: Reply) -> None:
        if self._cors:
            reply = self._cors.allow(scope["exchange"], reply)
        await _send_reply(self._context.answers, scope, send, reply, self._prefix)

    def _finish(self, scope: Scope) -> None:
        self._finished(scope, scope["exchange"])
        release(scope)


def _send_at_once(scope: Scope, reply: Reply, body: bytes) -> bool:
    """Send it in one write, if that is possible."""
    exchange: Exchange = scope["exchange"]
    if reply.headers or (exchange.gzip and len(body) >= _GZIP_FROM):
        return False
    exchange.status = reply.status
    exchange.sent = len(body)
    head = _HEAD % (reply.media_type.encode(), len(body), exchange.request_id.encode())
    return send_whole(scope, head, reply.status, body)


async def _send_reply(
    answers: UnsentAnswers, scope: Scope, send: Send, reply: Reply, prefix: PathPrefix
) -> None:
    if isinstance(reply.body, AsyncGenerator):
        await _send_stream(scope, send, reply, reply.body)
        return
    body = encoded(reply)
    if answers.bytes and len(body) >= LARGE_BYTES and scope["method"] == "GET":
        try:
            answers.check(len(body))
        except HttpError as error:
            reply = problem_reply(error, scope["exchange"])
            body = encoded(reply)
    if _send_at_once(scope, reply, body):
        return
    exchange: Exchange = scope["exchange"]
    exchange.status = reply.status
    request_id = exchange.request_id.encode()
    headers = [*headers_of(reply, len(body)), (b"x-request-id", request_id)]
    if prefix:
        headers = prefix.add_to_headers(headers)
    if exchange.gzip and len(body) >= _GZIP_FROM:
        headers, body = _compressed(headers, body)
    exchange.sent = len(body)
    with answers.holding(len(body)):
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _send_stream(
    scope: Scope, send: Send, reply: Reply, parts: AsyncGenerator[bytes]
) -> None:
    """Send a response part by part. Parts are neither collected nor compressed."""
    exchange: Exchange = scope["exchange"]
    exchange.status = reply.status
    headers = [
        *headers_of(reply, None),
        (b"x-request-id", exchange.request_id.encode()),
    ]
    async with aclosing(parts):
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for part in parts:
            exchange.sent += len(part)
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _answering(exchange: Exchange, send: Send, prefix: PathPrefix) -> Send:
    """Sends the responses of a Starlette application like our own."""
    held: list[Message] = []

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            message["headers"].append((b"x-request-id", exchange.request_id.encode()))
            if prefix:
                message["headers"] = prefix.add_to_headers(message["headers"])
            held.append(message)
            return
        if held:
            start = held.pop()
            body = message.get("body", b"")
            # A stream is not changed.
            is_whole = not message.get("more_body")
            if prefix and is_whole:
                start["headers"], body = prefix.add_to_page(start["headers"], body)
            if exchange.gzip and is_whole and len(body) >= _GZIP_FROM:
                start["headers"], body = _compressed(start["headers"], body)
            message["body"] = body
            await send(start)
        exchange.sent += len(message.get("body", b""))
        await send(message)

    return answer


def _compressed(
    headers: list[tuple[bytes, bytes]], body: bytes
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Compress a complete body of a compressible type."""
    known = {name.lower(): value for name, value in headers}
    kind = known.get(b"content-type", b"")
    if b"content-encoding" in known or not (b"json" in kind or kind.startswith(b"text/")):
        return headers, body
    packer = zlib.compressobj(4, zlib.DEFLATED, 31)
    packed = packer.compress(body) + packer.flush()
    return [
        *((name, value) for name, value in headers if name.lower() != b"content-length"),
        (b"content-length", b"%d" % len(packed)),
        (b"content-encoding", b"gzip"),
        (b"vary", b"accept-encoding"),
    ], packed
