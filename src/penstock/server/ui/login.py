"""Signs visitors in and out: by a key in the form, or by the one-time link of `penstock up`.

`/login/sso` redirects the browser to the identity provider, which redirects it to
`/login/callback`. A key is never part of an address, because browsers and proxies store addresses.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.errors import AuthenticationError
from penstock.server.auth.sign_on import CALLBACK
from penstock.server.auth.users import SignInError
from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import read_form
from penstock.server.ui.formats import zone_of
from penstock.server.ui.sessions import (
    COOKIE,
    context_of,
    proxied_by,
    require_same_origin,
    signed_in,
)
from penstock.server.ui.sign_on import finish, start
from penstock.server.ui.templates import render
from penstock.server.ui.visits import HEADERS, THEMES, ZONE_COOKIE, theme_of

_FORM_BYTES = 4096
_YEAR = 365 * 86400


def routes() -> list[BaseRoute]:
    return [
        Route("/login", show_login, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/login/sso", start_sign_on, methods=["GET"]),
        Route(CALLBACK, finish_sign_on, methods=["GET"]),
        Route("/logout", log_out, methods=["POST"]),
        Route("/theme", choose_theme, methods=["POST"]),
        Route("/time-zone", choose_zone, methods=["POST"]),
    ]


async def show_login(request: Request) -> Response:
    """The form, or the session of a one-time link."""
    link, target = request.query_params.get("link"), _target(request.query_params.get("next"))
    if link is None or request.method == "HEAD":
        return _form(request, target)
    principal = await context_of(request).auth.use_link(link)
    if principal is None:
        text = "This sign-in link has expired or was used. Sign in with an API key."
        return _form(request, target, text, 401)
    return await signed_in(request, principal, target)


async def log_in(request: Request) -> Response:
    fields = await _fields(request)
    target = _target(fields.get("next", [None])[0])
    if "proxied" in fields:
        user = proxied_by(request)
        if user is None:
            return _form(request, target, "The proxy names no user with a role here.", 401)
        return await signed_in(request, user, target)
    return await _attempt(request, fields.get("key", [""])[0].strip(), target)


async def start_sign_on(request: Request) -> Response:
    """Redirect to the identity provider."""
    try:
        return await start(request, _target(request.query_params.get("next")))
    except SignInError as error:
        return _form(request, "/", str(error), 503)


async def finish_sign_on(request: Request) -> Response:
    """The return from the identity provider: sign in, or show the form with the reason."""
    try:
        return await finish(request)
    except SignInError as error:
        return _form(request, "/", str(error), 403)


async def log_out(request: Request) -> Response:
    require_same_origin(request)
    await context_of(request).auth.end_session(request.cookies.get(COOKIE))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


async def choose_theme(request: Request) -> Response:
    """Set the theme: light, dark, or that of the browser. A form, because it needs no script."""
    fields = await _fields(request)
    theme = fields.get("theme", ["auto"])[0]
    response = RedirectResponse(_target(fields.get("next", [None])[0]), 303)
    if theme in THEMES:
        response.set_cookie("penstock_theme", theme, max_age=_YEAR, samesite="lax", httponly=True)
    return response


async def choose_zone(request: Request) -> Response:
    """Store UTC or the visitor's own time zone. An unknown name changes nothing."""
    fields = await _fields(request)
    zone = fields.get("zone", ["UTC"])[0]
    response = RedirectResponse(_target(fields.get("next", [None])[0]), 303)
    if zone_of(zone) is not None:
        response.set_cookie(ZONE_COOKIE, zone, max_age=_YEAR, samesite="lax", httponly=True)
    return response


async def _fields(request: Request) -> dict[str, list[str]]:
    require_same_origin(request)
    return await read_form(request, _FORM_BYTES)


async def _attempt(request: Request, key: str, target: str) -> Response:
    address = request.scope["exchange"].address
    try:
        principal = await context_of(request).auth.authenticate(f"Bearer {key}", address)
    except AuthenticationError:
        return _form(request, target, "This key is unknown.", 401)
    except HttpError as error:
        return _form(request, target, f"{error.detail}. {error.hint}", error.status)
    return await signed_in(request, principal, target)


def _form(request: Request, target: str, error: str | None = None, status: int = 200) -> Response:
    html = render(
        "login.html",
        next=target,
        error=error,
        theme=theme_of(request),
        user=proxied_by(request),
        sign_on=context_of(request).sign_on is not None,
    )
    return Response(html, status, HEADERS, "text/html; charset=utf-8")


def _target(wanted: str | None) -> str:
    """A path of this server, or the first page. Never another site."""
    if wanted and wanted.startswith("/") and not wanted.startswith(("//", "/\\")):
        return wanted
    return "/"
