"""`/live`: an event whenever the board has news. All who listen share one look at the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from penstock.errors import AuthenticationError
from penstock.server.board import LOOK_SECONDS
from penstock.server.context import Context
from penstock.server.ui.sessions import COOKIE, context_of
from penstock.server.ui.visits import failure

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def routes() -> list[BaseRoute]:
    return [Route("/live", live, methods=["GET"])]


async def live(request: Request) -> Response:
    request.scope["exchange"].route = "/live"
    context = context_of(request)
    cookie = request.cookies.get(COOKIE)
    try:
        if await context.auth.session(cookie) is None:
            raise AuthenticationError("there is no session", hint="Sign in at /login.")
    except Exception as error:
        return failure(request, None, error, as_json=True)
    return StreamingResponse(
        events(context, cookie), headers=_HEADERS, media_type="text/event-stream"
    )


async def events(context: Context, cookie: str | None) -> AsyncIterator[bytes]:
    """Until the visitor goes, the session ends, or the server drains."""
    seen = 0
    yield b"retry: 3000\n\n"
    while not context.draining.is_set():
        try:
            if await context.auth.session(cookie) is None:
                yield b"event: over\ndata: the session has ended\n\n"
                return
            snapshot = await context.board.look()
        except Exception:
            yield b"event: away\ndata: the database does not answer\n\n"
        else:
            if snapshot.number != seen:
                seen = snapshot.number
                yield f"event: tick\ndata: {seen}\n\n".encode()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await context.draining.wait()
        except TimeoutError:
            pass
