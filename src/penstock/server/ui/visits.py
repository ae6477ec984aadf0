"""Pages: requests of visitors, and the views that answer them.

    pages = Pages()

    @pages("/queues")
    async def queues(visit: Visit) -> View:
        return View("queues.html", "Queues", {"queues": ...})

A view is data with a template. The same data is available as JSON at the path with the suffix
`.json`, for scripts. There an API key is enough.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.commands.command import Command
from penstock.commands.read import activity
from penstock.errors import AuthenticationError
from penstock.model.access import Activity, Scope
from penstock.server.auth.permissions import json_path, need_of
from penstock.server.auth.principal import Principal
from penstock.server.context import Context
from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.transport.exchange import Exchange
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import problem_reply
from penstock.server.ui.formats import ZONE, zone_of
from penstock.server.ui.sessions import context_of, csrf_token, session_of
from penstock.server.ui.templates import render

T = TypeVar("T")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
ZONE_COOKIE: Final = "penstock_zone"
THEMES: Final = ("auto", "light", "dark")


@dataclass(frozen=True, slots=True)
class View:
    """The content of a page. `live`: the page updates itself when the snapshot changes."""

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    status: int = 200


class Visit:
    """One permitted request of a visitor."""

    def __init__(self, request: Request, principal: Principal, csrf: str) -> None:
        self.request = request
        self.context: Context = context_of(request)
        self.principal = principal
        self.csrf = csrf
        self.form: Mapping[str, list[str]] = {}
        self.path: Mapping[str, str] = request.path_params

    @property
    def exchange(self) -> Exchange:
        found: Exchange = self.request.scope["exchange"]
        return found

    async def run(self, command: Command[T]) -> T:
        return await self.context.database.run(command)

    async def look(self, *parts: str) -> Snapshot:
        """The snapshot, or parts of it, limited to the queues that this visitor may read."""
        return cut(await self.context.snapshots.look(*parts), self.principal)

    def asked(self, name: str) -> str | None:
        """A parameter of the form or of the address, or None if it is empty."""
        if name in self.form:
            return self.form[name][0].strip() or None
        return (self.request.query_params.get(name) or "").strip() or None

    def asked_all(self, name: str) -> list[str]:
        return list(self.form.get(name) or self.request.query_params.getlist(name))

    def asked_whole(self, name: str, default: int, low: int, high: int) -> int:
        text = self.asked(name)
        if text is None:
            return default
        digits = text.isascii() and text.isdigit() and len(text) <= 20
        if not digits or not low <= int(text) <= high:
            raise refused(name, text, f"a whole number from {low} to {high}")
        return int(text)

    def asked_one(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of the allowed words. The first is the default."""
        text = self.asked(name) or allowed[0]
        if text not in allowed:
            raise refused(name, text, ", ".join(allowed))
        return text

    def may(self, scope: Scope, queue: str | None = None) -> bool:
        return self.principal.may(scope, queue)

    @property
    def redacts(self) -> bool:
        return self.context.settings.redact == "payloads"

    async def done(self) -> Activity | None:
        """The last action of this visitor, if the address refers to it."""
        id = self.request.query_params.get("done", "")
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            return None
        found = await self.run(activity(actor=self.principal.name, before=int(id) + 1, limit=1))
        return found[0] if found and found[0].id == int(id) else None


def refused(field: str, value: str, allowed: str) -> HttpError:
    return HttpError(
        422,
        "InvalidValue",
        f"{field} is {value!r:.100}",
        hint=f"Allowed: {allowed}.",
        field=field,
        allowed=allowed,
    )


def cut(snapshot: Snapshot, principal: Principal) -> Snapshot:
    """The snapshot limited to the queues that the principal may read."""
    if principal.is_admin:
        return snapshot
    changes: dict[str, Any] = {}
    for name in ("stats", "exact", "finished", "failed", "leases", "errors", "schedules"):
        rows = getattr(snapshot, name)
        changes[name] = [row for row in rows if principal.may("read", row.queue)]
    changes["depths"] = {
        # The empty name stands for all queues. Only its times are shown.
        name: depths
        for name, depths in snapshot.depths.items()
        if not name or principal.may("read", name)
    }
    changes["queues"] = [row for row in snapshot.queues if principal.may("read", row.name)]
    beats = [
        replace(row, queues={n: q for n, q in row.queues.items() if principal.may("read", n)})
        for row in snapshot.heartbeats
    ]
    changes["heartbeats"] = [row for row in beats if row.queues or principal.unlimited("read")]
    if not principal.unlimited("read"):
        changes["horizon"] = []
        changes["lakes"] = []
    return replace(snapshot, **changes)


Handler = Callable[[Visit], Awaitable[View | Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Pages:
    """The pages of one part of the UI."""

    def __init__(self) -> None:
        self.routes: list[BaseRoute] = []

    def __call__(self, path: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.routes += page_routes(handler, path)
            return handler

        return register


def page_routes(handler: Handler, path: str) -> list[BaseRoute]:
    """A page and its JSON document."""
    twin = json_path(path)
    return [
        Route(twin, _guarded(handler, twin, as_json=True), methods=["GET"]),
        Route(path, _guarded(handler, path), methods=["GET"]),
    ]


def _guarded(handler: Handler, path: str, *, as_json: bool = False) -> Endpoint:
    """The handler for permitted callers. Errors become pages or problems."""
    need = need_of("GET", path)

    async def endpoint(request: Request) -> Response:
        request.scope["exchange"].route = path
        visit: Visit | None = None
        try:
            principal = await _principal(request, as_json)
            if principal is None:
                return to_login(request)
            request.scope["exchange"].actor = principal.name
            csrf = "" if as_json else await csrf_token(request)
            visit = Visit(request, principal, csrf)
            need.admit(principal, visit.path)
            found = await handler(visit)
            return found if isinstance(found, Response) else await respond(visit, found, as_json)
        except Exception as error:
            return failure(request, visit, error, as_json)

    return endpoint


async def _principal(request: Request, as_json: bool) -> Principal | None:
    auth = context_of(request).auth
    authorization = request.headers.get("authorization")
    if as_json and authorization is not None:
        return await auth.authenticate(authorization, request.scope["exchange"].address)
    found = await session_of(request)
    if found is None and as_json:
        raise AuthenticationError("there is no session", hint="Send an API key, or sign in.")
    return found


def to_login(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    target = f"/login?next={quote(request.url.path + query)}"
    if request.headers.get("hx-request"):
        # A part of a page cannot sign in, so the whole page is redirected.
        return Response(status_code=401, headers={"HX-Redirect": target})
    return RedirectResponse(target, 303)


async def respond(visit: Visit, view: View, as_json: bool = False) -> Response:
    if as_json:
        return _json(view.data, view.status)
    zone = zone_name(visit.request)
    ZONE.set(zone_of(zone) or UTC)
    html = render(
        view.template,
        zone=zone,
        visit=visit,
        view=view,
        title=view.title,
        done=await visit.done(),
        theme=theme_of(visit.request),
        rendered_at=datetime.now(UTC),
        **view.data,
    )
    return Response(html, view.status, HEADERS, "text/html; charset=utf-8")


def zone_name(request: Request) -> str:
    """The time zone that the visitor chose. The default is UTC."""
    chosen = request.cookies.get(ZONE_COOKIE, "UTC")
    return chosen if zone_of(chosen) else "UTC"


def theme_of(request: Request) -> str:
    chosen = request.cookies.get("penstock_theme", "auto")
    return chosen if chosen in THEMES else "auto"


def failure(request: Request, visit: Visit | None, error: Exception, as_json: bool) -> Response:
    """The error as a page or as a problem, in the requested format."""
    reply = problem_reply(error, request.scope["exchange"])
    headers = {**HEADERS, **reply.headers}
    if as_json:
        body = msgspec.json.encode(reply.body)
        return Response(body, reply.status, headers, reply.media_type)
    html = render(
        "error.html",
        visit=visit,
        view=View("error.html", "Error"),
        title=reply.body.title,
        problem=reply.body,
        done=None,
        theme=theme_of(request),
        zone=zone_name(request),
        rendered_at=datetime.now(UTC),
    )
    headers.pop("WWW-Authenticate", None)
    return Response(html, reply.status, headers, "text/html; charset=utf-8")


def _json(data: Mapping[str, Any], status: int) -> Response:
    return Response(msgspec.json.encode(data), status, HEADERS, "application/json")
