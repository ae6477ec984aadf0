"""`/live`: an event for each change of the snapshot, and when the database becomes unavailable or
available.

All listeners share one query. Pages without live content listen to `/live?only=status`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from penstock.errors import AuthenticationError
from penstock.server.database import SILENCE_SECONDS
from penstock.server.ui.sessions import context_of, session_of
from penstock.server.ui.visits import failure

# All listeners share one probe. With SILENCE_SECONDS, an open page says within four seconds that
# the database hangs.
PROBE_SECONDS: Final = 1.0
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def routes() -> list[BaseRoute]:
    return [Route("/live", live, methods=["GET"])]


async def live(request: Request) -> Response:
    request.scope["exchange"].route = "/live"
    try:
        if await session_of(request) is None:
            raise AuthenticationError("there is no session", hint="Sign in at /login.")
    except Exception as error:
        return failure(request, None, error, as_json=True)
    follows = request.query_params.get("only") != "status"
    return StreamingResponse(
        events(request, follows), headers=_HEADERS, media_type="text/event-stream"
    )


async def events(request: Request, follows: bool) -> AsyncIterator[bytes]:
    """Send events until the visitor leaves, the session ends, or the server stops."""
    context = context_of(request)
    seen, is_away = 0, False
    yield b"retry: 3000\n\n"
    while not context.draining.is_set():
        try:
            if await session_of(request) is None:
                yield b"event: over\ndata: the session has ended\n\n"
                return
            await context.database.probe(SILENCE_SECONDS, max_age=PROBE_SECONDS / 2)
            number = (await context.snapshots.look()).number if follows else seen
        except Exception:
            is_away = True
            yield b"event: away\ndata: the database does not answer\n\n"
        else:
            if is_away:
                is_away = False
                yield b"event: back\ndata: the database answers\n\n"
            if number != seen:
                seen = number
                yield f"event: tick\ndata: {seen}\n\n".encode()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await context.draining.wait()
        except TimeoutError:
            pass
