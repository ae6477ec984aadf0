"""The outermost application: every request comes in here, and every answer goes out.

Around each of them: its id, its line in the log, its count in the metrics, gzip, the last no. Calls
of the interface go straight to their endpoints; pages, and what is nowhere, to Starlette. On bare
ASGI: as Starlette's middleware and routes the same cost more than the request itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.server.context import Context
from penstock.server.exchange import Exchange, log
from penstock.server.matching import Paths
from penstock.server.protocol import send_whole
from penstock.server.routing import Endpoint, Reply, encoded, headers_of, other_method

_GZIP_FROM: Final = 1000
_HEAD: Final = b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n"


class Entrance:
    """`app` has the lifespan, the pages, and the word for what is nowhere."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = scope["exchange"] = Exchange(scope)
        try:
            found = self._paths.find(scope["path"])
            if found is None:
                await self._app(scope, receive, _answering(exchange, send))
                return
            methods, scope["path_params"] = found
            endpoint = methods.get(scope["method"])
            if endpoint is None:
                await _send_reply(scope, send, other_method(methods, scope))
                return
            reply = await endpoint.answer(self._context, scope, receive)
            if reply is not None:
                await _send_reply(scope, send, reply)
        except Exception:
            # Whatever was sent by now, the connection is of no use; uvicorn closes it.
            log.exception("request %s failed", exchange.request_id)
            exchange.status = exchange.status or 500
            raise
        finally:
            self._finished(scope, exchange)


async def _send_reply(scope: Scope, send: Send, reply: Reply) -> None:
    exchange: Exchange = scope["exchange"]
    exchange.status = reply.status
    body = encoded(reply)
    request_id = exchange.request_id.encode()
    if not reply.headers and not (exchange.gzip and len(body) >= _GZIP_FROM):
        exchange.sent = len(body)
        head = _HEAD % (reply.media_type.encode(), len(body), request_id)
        if send_whole(scope, head, reply.status, body):
            return
    headers = [*headers_of(reply, len(body)), (b"x-request-id", request_id)]
    if exchange.gzip and len(body) >= _GZIP_FROM:
        headers, body = _compressed(headers, body)
    exchange.sent = len(body)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _answering(exchange: Exchange, send: Send) -> Send:
    """Sends what an application of Starlette's answers, as our own answers are sent."""
    held: list[Message] = []

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            message["headers"].append((b"x-request-id", exchange.request_id.encode()))
            held.append(message)
            return
        if held:
            start = held.pop()
            body = message.get("body", b"")
            # A stream is left as it is.
            if exchange.gzip and not message.get("more_body") and len(body) >= _GZIP_FROM:
                start["headers"], message["body"] = _compressed(start["headers"], body)
            await send(start)
        exchange.sent += len(message.get("body", b""))
        await send(message)

    return answer


def _compressed(
    headers: list[tuple[bytes, bytes]], body: bytes
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """A whole body of a kind that shrinks; others as they are."""
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
