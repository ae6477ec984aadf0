"""The admin UI as a view, for users that Django has signed in.

The pages have addresses from the root of their site. The view removes the prefix of the project
from the address of a request, and adds it to links and redirects in the response.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.encoding import escape_uri_path
from django.views.decorators.csrf import csrf_exempt

from penstock.django.database import dsn
from penstock.django.ui_access import Visitor, visitor_of
from penstock.django.ui_server import PageRequest, PageResponse, servers
from penstock.server.transport.path_prefix import LINK

_EVENTS: Final = re.compile(rb'\sdata-events="[^"]*"')
# Headers that say something about the connection, or that Django decides on.
_OWN_HEADERS: Final = frozenset({"authorization", "accept-encoding", "host", "content-length"})
_REDIRECTS: Final = frozenset({"location", "hx-redirect"})


@csrf_exempt  # The forms of the pages carry their own token.
def ui(request: HttpRequest, path: str) -> HttpResponseBase:
    """A page, a file or an action of the admin UI."""
    visitor = visitor_of(request)
    if visitor is None:
        return _refused(request)
    if path == "logout" and request.method == "POST":
        return _signed_out(request)
    prefix = escape_uri_path(request.path.removesuffix(path).rstrip("/"))
    if path == "login":
        return redirect(f"{prefix}/")
    server = servers.get(dsn())
    page = _page_request(request, path)
    if path == "live":
        return _events(request, server.stream(page, visitor), visitor)
    return _response(server.answer(page, visitor), prefix, isinstance(request, ASGIRequest))


def _refused(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        raise PermissionDenied("This user has no permission for the queues.")
    if request.headers.get("hx-request"):
        # A part of a page cannot sign in, so the whole page is redirected.
        return HttpResponse(status=401, headers={"HX-Redirect": resolve_url(settings.LOGIN_URL)})
    return redirect_to_login(request.get_full_path())


def _signed_out(request: HttpRequest) -> HttpResponse:
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.get_host():
        raise PermissionDenied("The request comes from another site.")
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL or settings.LOGIN_URL)


def _page_request(request: HttpRequest, path: str) -> PageRequest:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
        if name.lower() not in _OWN_HEADERS
    ]
    return PageRequest(
        method=request.method or "GET",
        path=f"/{path}",
        query=request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        headers=[*headers, (b"host", request.get_host().encode("latin-1"))],
        body=request.body,
        address=request.META.get("REMOTE_ADDR") or "unknown",
        is_secure=request.is_secure(),
    )


def _events(request: HttpRequest, parts: object, visitor: Visitor) -> HttpResponseBase:
    """Under WSGI each listener would keep a thread of the server, so there are no events."""
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)
    return StreamingHttpResponse(
        parts,  # type: ignore[arg-type]
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _response(answer: PageResponse, prefix: str, has_events: bool) -> HttpResponse:
    body = answer.body
    kinds = [value for name, value in answer.headers if name == "content-type"]
    if kinds and kinds[0].startswith("text/html"):
        if not has_events:
            body = _EVENTS.sub(b"", body)
        body = LINK.sub(lambda found: found[1] + escape(prefix).encode() + b"/", body)
    response = HttpResponse(body, status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        if name == "set-cookie":
            response.cookies.load(value)
        elif name in _REDIRECTS and value.startswith("/") and not value.startswith("//"):
            response[name] = prefix + value
        elif name != "content-length":
            response[name] = value
    return response
