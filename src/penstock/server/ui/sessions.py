"""Who looks at a page: a signed cookie, got for a key at `/login`.

    @page("operate")
    async def pause(request: Request, principal: Principal) -> Response: ...

Without a session a GET is sent to `/login` and back; anything else is refused. The cookie goes
with requests from our own pages only (SameSite=Strict), and a POST must come from our own origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.access import Scope
from penstock.errors import AuthenticationError
from penstock.server.auth import SESSION_SECONDS, Principal
from penstock.server.context import Context
from penstock.server.problems import HttpError

COOKIE: Final = "penstock_session"
Page = Callable[[Request, Principal], Awaitable[Response]]


def context_of(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


def page(scope: Scope) -> Callable[[Page], Callable[[Request], Awaitable[Response]]]:
    """A page for those who have the scope on some queue; the page itself checks which."""

    def wrap(handler: Page) -> Callable[[Request], Awaitable[Response]]:
        @wraps(handler)
        async def guarded(request: Request) -> Response:
            principal = await context_of(request).auth.session(request.cookies.get(COOKIE))
            if principal is None and request.method in ("GET", "HEAD"):
                return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
            if principal is None:
                raise AuthenticationError("there is no session", hint="Sign in at /login.")
            if request.method not in ("GET", "HEAD"):
                require_same_origin(request)
            request.scope["exchange"].actor = principal.name
            principal.require(scope)
            return await handler(request, principal)

        return guarded

    return wrap


def require_same_origin(request: Request) -> None:
    """Browsers say where a POST comes from; one of another site's pages is refused."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise HttpError(403, "WrongOrigin", "the request comes from another site")


async def signed_in(request: Request, principal: Principal, target: str) -> Response:
    """Off to the target, with a session."""
    context = context_of(request)
    response = RedirectResponse(target, 303)
    response.set_cookie(
        COOKIE,
        await context.auth.open_session(principal),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=context.settings.secure_cookies == "on",
    )
    return response
