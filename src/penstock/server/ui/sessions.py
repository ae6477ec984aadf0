"""Sessions of visitors: a signed cookie, issued at `/login` for a key or for a user.

Signing out ends the session on the server, also for copies of the cookie. A page without a session
redirects to `/login` and back. Other requests are refused. Browsers send the cookie only with
requests from our own pages (SameSite=Strict). A POST must come from our own origin and contain the
token of the session.
"""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.server.auth.principal import Principal
from penstock.server.auth.sign_on import proxied_user
from penstock.server.auth.tokens import SESSION_SECONDS
from penstock.server.auth.users import User
from penstock.server.context import Context
from penstock.server.transport.problems import HttpError

COOKIE: Final = "penstock_session"


def context_of(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


async def session_of(request: Request) -> Principal | None:
    """The signed-in visitor, or None."""
    return await context_of(request).auth.session(request.cookies.get(COOKIE), proxied_by(request))


def proxied_by(request: Request) -> User | None:
    """The user whom a trusted proxy names in a header."""
    headers = request.scope["exchange"].headers
    return proxied_user(request.scope, headers, context_of(request).settings)


async def csrf_token(request: Request) -> str:
    """The token in our forms. It is bound to the session, and other sites cannot know it."""
    return await context_of(request).auth.csrf_token(request.cookies.get(COOKIE, ""))


async def require_csrf(request: Request, given: str) -> None:
    require_same_origin(request)
    if not hmac.compare_digest(given.encode(), (await csrf_token(request)).encode()):
        raise HttpError(
            403,
            "WrongToken",
            "the form does not belong to this session",
            hint="Load the page again, and send the form from there.",
        )


def require_same_origin(request: Request) -> None:
    """Refuse a POST whose origin, as the browser reports it, is another site."""
    origin = request.headers.get("origin")
    ours = {request.headers.get("host"), context_of(request).settings.public_host}
    if origin is not None and urlsplit(origin).netloc not in ours - {None}:
        raise HttpError(403, "WrongOrigin", "the request comes from another site")


async def signed_in(
    request: Request, who: Principal | User, target: str, response: Response | None = None
) -> Response:
    """Redirect to the target, or send the given response, with a session."""
    context = context_of(request)
    response = response or RedirectResponse(target, 303)
    subject, roles = (who.subject, who.roles) if isinstance(who, User) else (who.key_id, ())
    response.set_cookie(
        COOKIE,
        await context.auth.open_session(subject, roles),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=context.settings.cookies_are_secure,
    )
    return response
