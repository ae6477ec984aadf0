"""In and out: `/login` takes a key, by form or in the address that `penstock up` prints."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.errors import AuthenticationError
from penstock.server.auth import Principal
from penstock.server.problems import HttpError
from penstock.server.ui.sessions import COOKIE, context_of, page, require_same_origin, signed_in
from penstock.server.ui.templates import render

_FORM_BYTES = 4096


def routes() -> list[BaseRoute]:
    return [
        Route("/", home, methods=["GET"]),
        Route("/login", show_login, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


@page("read")
async def home(request: Request, principal: Principal) -> Response:
    return HTMLResponse(render("home.html", principal=principal))


async def show_login(request: Request) -> Response:
    """The form; or, with a key in the address, straight in."""
    key, target = request.query_params.get("key"), _target(request.query_params.get("next"))
    if key is None:
        return _form(target)
    return await _attempt(request, key, target)


async def log_in(request: Request) -> Response:
    require_same_origin(request)
    fields = parse_qs((await _form_body(request)).decode("utf-8", "replace"))
    target = _target(fields.get("next", [None])[0])
    return await _attempt(request, fields.get("key", [""])[0].strip(), target)


async def log_out(request: Request) -> Response:
    require_same_origin(request)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


async def _attempt(request: Request, key: str, target: str) -> Response:
    peer = request.scope["exchange"].peer
    try:
        principal = await context_of(request).auth.authenticate(f"Bearer {key}", peer)
    except AuthenticationError:
        return _form(target, "This key is not known.", 401)
    except HttpError as error:
        return _form(target, f"{error.detail}. {error.hint}", error.status)
    return await signed_in(request, principal, target)


def _form(target: str, error: str | None = None, status: int = 200) -> Response:
    return HTMLResponse(render("login.html", next=target, error=error), status)


async def _form_body(request: Request) -> bytes:
    context = context_of(request)
    async with context.bodies.read(request.scope, request.receive) as raw:
        if len(raw) > _FORM_BYTES:
            raise HttpError(413, "BodyTooLarge", "the form is too large")
        return raw


def _target(wanted: str | None) -> str:
    """A path of ours, or the first page: never another site's."""
    if wanted and wanted.startswith("/") and not wanted.startswith(("//", "/\\")):
        return wanted
    return "/"
