"""In and out: `/login` takes a key, by form or in the address that `penstock up` prints."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.errors import AuthenticationError
from penstock.server.problems import HttpError
from penstock.server.ui.acts import read_form
from penstock.server.ui.sessions import COOKIE, context_of, require_same_origin, signed_in
from penstock.server.ui.templates import render
from penstock.server.ui.visits import HEADERS, THEMES, theme_of

_FORM_BYTES = 4096
_YEAR = 365 * 86400


def routes() -> list[BaseRoute]:
    return [
        Route("/login", show_login, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
        Route("/theme", choose_theme, methods=["POST"]),
    ]


async def show_login(request: Request) -> Response:
    """The form; or, with a key in the address, straight in."""
    key, target = request.query_params.get("key"), _target(request.query_params.get("next"))
    if key is None:
        return _form(request, target)
    return await _attempt(request, key, target)


async def log_in(request: Request) -> Response:
    require_same_origin(request)
    fields = await read_form(request, _FORM_BYTES)
    target = _target(fields.get("next", [None])[0])
    return await _attempt(request, fields.get("key", [""])[0].strip(), target)


async def log_out(request: Request) -> Response:
    require_same_origin(request)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


async def choose_theme(request: Request) -> Response:
    """Light, dark, or as the browser has it: without a script, so by a form."""
    require_same_origin(request)
    fields = await read_form(request, _FORM_BYTES)
    theme = fields.get("theme", ["auto"])[0]
    response = RedirectResponse(_target(fields.get("next", [None])[0]), 303)
    if theme in THEMES:
        response.set_cookie("penstock_theme", theme, max_age=_YEAR, samesite="lax", httponly=True)
    return response


async def _attempt(request: Request, key: str, target: str) -> Response:
    peer = request.scope["exchange"].peer
    try:
        principal = await context_of(request).auth.authenticate(f"Bearer {key}", peer)
    except AuthenticationError:
        return _form(request, target, "This key is not known.", 401)
    except HttpError as error:
        return _form(request, target, f"{error.detail}. {error.hint}", error.status)
    return await signed_in(request, principal, target)


def _form(request: Request, target: str, error: str | None = None, status: int = 200) -> Response:
    html = render("login.html", next=target, error=error, theme=theme_of(request))
    return Response(html, status, HEADERS, "text/html; charset=utf-8")


def _target(wanted: str | None) -> str:
    """A path of ours, or the first page: never another site's."""
    if wanted and wanted.startswith("/") and not wanted.startswith(("//", "/\\")):
        return wanted
    return "/"
