"""The application: all endpoints, the pages, and the resources that open and close with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec
import psycopg
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from penstock.commands.http_verbs import verbs as all_verbs
from penstock.errors import ConfigurationError, PenstockError
from penstock.server import openapi, ui
from penstock.server.api import (
    admin,
    bulk_acts,
    dead_letters,
    enqueue,
    keys,
    leases,
    message_sets,
    messages,
    schedules,
    settlements,
    streams,
    subscriptions,
    task_results,
    topics,
    verbs,
    workers,
)
from penstock.server.auth.permissions import UndeclaredError, check_declared
from penstock.server.context import Context
from penstock.server.control import queues, services, tasks
from penstock.server.monitoring import health
from penstock.server.notifications.notifier import Notifier
from penstock.server.transport.access_log import AccessLog
from penstock.server.transport.dispatch import EntryApp
from penstock.server.transport.exchange import Exchange
from penstock.server.transport.path_tree import Paths
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Endpoint, address_without_slash, problem_reply
from penstock.server.ui.visits import failure

FLUSH_SECONDS = 0.25


def endpoints() -> list[Endpoint]:
    """Every endpoint, in the order of the documentation."""
    return [
        *enqueue.endpoint.all,
        *leases.endpoint.all,
        *settlements.endpoint.all,
        *streams.endpoint.all,
        *verbs.endpoint.all,
        *messages.endpoint.all,
        *message_sets.endpoint.all,
        *dead_letters.endpoint.all,
        *topics.endpoint.all,
        *schedules.endpoint.all,
        *subscriptions.endpoint.all,
        *bulk_acts.endpoint.all,
        *task_results.endpoint.all,
        *workers.endpoint.all,
        *admin.endpoint.all,
        *keys.endpoint.all,
        *queues.endpoint.all,
        *services.endpoint.all,
        *tasks.endpoint.all,
        *health.endpoint.all,
        *openapi.endpoint.all,
    ]


def create_app(context: Context, *, has_api: bool = True) -> EntryApp:
    """The whole server as one ASGI application. Its lifespan opens and closes the database.

    Without the API, only the pages are served.
    """
    access_log = AccessLog() if context.settings.access_log == "json" else None
    notifier = Notifier(
        context.database,
        context.snapshots,
        context.settings.notify,
        context.name,
        redact=context.settings.redact == "payloads",
    )

    def finished(scope: Scope, exchange: Exchange) -> None:
        context.metrics.count(scope["method"], exchange)
        if access_log is not None:
            access_log.add(scope, exchange)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await context.open()
        flushing = asyncio.create_task(_flush(access_log)) if access_log else None
        notifier.start()
        try:
            yield
        finally:
            await notifier.stop()
            if flushing is not None:
                flushing.cancel()
                with suppress(asyncio.CancelledError):
                    await flushing
            await context.close()

    pages, calls = ui.routes(), endpoints()
    routes = [*_names(pages), *(f"{each.method} {each.path}" for each in calls)]
    check_declared(routes, all_verbs())
    _check_prefix(context.settings.path_prefix, routes)
    app = Starlette(
        routes=pages,
        exception_handlers={
            HTTPException: _refused,
            HttpError: _failed,
            PenstockError: _failed,
            psycopg.Error: _failed,
            Exception: _failed,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.context = context
    app.state.has_api = has_api
    return EntryApp(context, Paths(calls if has_api else []), app, finished)


def _names(routes: Sequence[BaseRoute]) -> Iterator[str]:
    """`METHOD /path` of each route; GET stands for HEAD too."""
    for route in routes:
        if not isinstance(route, Route):
            raise UndeclaredError(f"{route!r} is not a Route, so its permissions are unknown")
        for method in sorted((route.methods or set()) - {"HEAD"}):
            yield f"{method} {route.path}"


def _check_prefix(prefix: str, routes: Iterable[str]) -> None:
    """A path must show whether a proxy has removed the prefix from it."""
    first = prefix.split("/")[1:2]
    if first and any(route.partition(" ")[2].split("/")[1] == first[0] for route in routes):
        raise ConfigurationError(
            f"the path of PENSTOCK_HTTP_PUBLIC_URL begins with /{first[0]}, a path of the server",
            hint="Publish the server under another path, such as /penstock.",
        )


async def _flush(log: AccessLog) -> None:
    try:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            log.flush()
    finally:
        log.flush()


async def _refused(request: Request, error: Exception) -> Response:
    """Errors that Starlette raises, such as an unknown path."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        if request.method in ("GET", "HEAD") and (page := _page_without_slash(request)):
            return Response(status_code=308, headers={"Location": page})
        error = HttpError(404, "NotFound", "this path does not exist", hint="See /docs.")
        if "text/html" in request.headers.get("accept", ""):  # a browser
            return failure(request, None, error, as_json=False)
    else:
        error = HttpError(error.status_code, "Refused", error.detail, headers=error.headers)
    return _response(request, error)


def _page_without_slash(request: Request) -> str | None:
    """The address without the slash at its end, if there is a page."""
    stripped = {**request.scope, "path": request.scope["path"].rstrip("/")}
    if not any(each.matches(stripped)[0] is Match.FULL for each in request.app.routes):
        return None
    return address_without_slash(request.scope)


async def _failed(request: Request, error: Exception) -> Response:
    return _response(request, error)


def _response(request: Request, error: Exception) -> Response:
    reply = problem_reply(error, request.scope["exchange"])
    body = msgspec.json.encode(reply.body)
    return Response(body, reply.status, dict(reply.headers), reply.media_type)
