"""Endpoints: the body, responses and parameters of a route, declared once for the router and for
OpenAPI. `permissions` declares the scope that each route needs.

    @endpoint("POST", "/api/things/{name}", body=NewThing, answers={201: Thing})
    async def make_thing(call: Call) -> Thing:
        '''Make a thing.'''

A handler returns the value to encode, or a Reply with status and headers. An exception becomes a
problem: PenstockErrors by their table, HttpErrors with their own status.

The handler of a frequent request need not be a coroutine function. It may return a `Pending`: the
one future that it waits for, and what to answer then. Such a request needs no task where the
transport has all of it (see `dispatch`). Everywhere else, `Endpoint.answer` awaits the future.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.types import Receive
from starlette.types import Scope as AsgiScope

from penstock.db.async_connections import AnyConnection
from penstock.errors import DatabaseUnavailableError, LeaseLostError, QueueNotFoundError
from penstock.server.auth.permissions import need_of
from penstock.server.auth.principal import Principal
from penstock.server.context import Context
from penstock.server.transport.body_limits import BodyLimits
from penstock.server.transport.call import Call, Pending, Reply, header
from penstock.server.transport.exchange import Exchange, log
from penstock.server.transport.http_words import in_words_of
from penstock.server.transport.idempotency import HEADER, once
from penstock.server.transport.integral_floats import Shape
from penstock.server.transport.problems import MEDIA_TYPE, HttpError, describe
from penstock.server.transport.protocol import channels
from penstock.server.transport.validation import invalid

__all__ = ["Call", "Endpoint", "Endpoints", "Pending", "Reply", "header"]

Handler = Callable[["Call"], "Awaitable[Any] | Pending"]
_encode: Final = msgspec.json.Encoder().encode


class Endpoint:
    """One method of one path."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        tag: str,
        body: Any = None,
        query: Any = None,
        answers: Mapping[int, Any],
        problems: tuple[int, ...] = (),
        body_schema: Mapping[str, Any] | None = None,
        media_type: str = "application/json",
        hidden: bool = False,
        keeps_answer: bool = False,
        is_secret: bool = False,
    ) -> None:
        """`keeps_answer`: the handler itself implements the Idempotency-Key. `is_secret`: the
        response contains a secret, which is not stored in the clear."""
        self.method = method
        self.path = path
        self.handler = handler
        self.need = need_of(method, path)
        self.tag = tag
        self.body = body
        self.query = query
        self.answers = answers
        self.problems = problems
        self.body_schema = body_schema
        self.media_type = media_type
        # A stream claims messages, which a HEAD request would leave leased and unread.
        self.has_head = method == "GET" and media_type != "text/event-stream"
        self.hidden = hidden
        self.keeps_answer = keeps_answer
        self.is_secret = is_secret
        # A coroutine function does nothing before its task runs.
        self.may_begin = body is not None and not iscoroutinefunction(handler)
        self.status = next(iter(answers))
        self._decoder = None if body is None else msgspec.json.Decoder(body)
        self._limits = None if body is None else BodyLimits(body)
        self._shape: Shape | None = None

    @property
    def name(self) -> str:
        return self.handler.__name__

    async def answer(self, context: Context, scope: AsgiScope, receive: Receive) -> Reply:
        """The reply, also for errors."""
        exchange: Exchange = scope["exchange"]
        exchange.route = self.path
        try:
            return await self._answer(context, scope, receive)
        except Exception as error:
            return self.refusal(context, error, exchange)

    def begin(self, context: Context, scope: AsgiScope) -> tuple[Call, Pending] | None:
        """Begin a request without a task, if its body has arrived completely.

        None, or an error, means that nothing was begun. The handler comes last: after it, the
        request is under way, and its body counts as held.
        """
        scope["exchange"].route = self.path
        if header(scope, HEADER) is not None:
            return None
        principal = self._known(context, scope)
        if principal is None or scope["query_string"] or self._decoder is None:
            return None
        check_json(scope)
        raw = context.bodies.look(scope)
        if raw is None:
            return None
        pending = None
        try:
            call = Call(context, scope, channels(scope)[0], principal)
            call.raw = raw
            if self._limits is not None:
                self._limits.check(raw)
            call.body = self._decoder.decode(raw)
            begun = self.handler(call)
            if isinstance(begun, Pending):
                pending = begun
            elif isinstance(begun, Coroutine):
                begun.close()
        finally:
            if pending is None:
                context.bodies.leave(raw)
        return None if pending is None else (call, pending)

    def refusal(self, context: Context, error: BaseException, exchange: Exchange) -> Reply:
        if isinstance(error, LeaseLostError):
            context.metrics.moved("lost", 1)
        return problem_reply(error, exchange)

    async def _answer(self, context: Context, scope: AsgiScope, receive: Receive) -> Reply:
        call = Call(
            context,
            scope,
            receive,
            self._known(context, scope) or await self._principal(context, scope),
        )
        if self.query is not None:
            call.query = _query(self.query, scope["query_string"])
        elif scope["query_string"]:
            _query(_NoQuery, scope["query_string"])
        if self._decoder is None:
            await _refuse_body(context, scope, receive)
            return self.reply(await self._handled(call))
        check_json(scope)
        async with context.bodies.read(scope, receive) as raw:
            call.raw = raw
            call.body = self._decoded(self._decoder, raw)
            return self.reply(await self._handled(call))

    async def _handled(self, call: Call) -> Any:
        if self.method != "POST" or self.keeps_answer or call.header(HEADER) is None:
            return await self._handle(call)

        async def work(connection: AnyConnection | None) -> Any:
            call.connection = connection
            return await self._handle(call)

        return await once(call, self.status, work, is_secret=self.is_secret)

    async def _handle(self, call: Call) -> Any:
        begun = self.handler(call)
        if not isinstance(begun, Pending):
            return await begun
        try:
            return begun.finish(call, await begun.future)
        except QueueNotFoundError as error:
            if begun.without_queue is None:
                raise
            return await begun.without_queue(call, error)

    def _known(self, context: Context, scope: AsgiScope) -> Principal | None:
        """The caller, if it is known without waiting."""
        if self.need.is_open:
            return ANYBODY
        exchange: Exchange = scope["exchange"]
        authorization = exchange.headers.get(b"authorization")
        found = None if authorization is None else context.auth.known(authorization)
        return None if found is None else self._admitted(found, scope)

    async def _principal(self, context: Context, scope: AsgiScope) -> Principal:
        exchange: Exchange = scope["exchange"]
        found = await context.auth.authenticate(header(scope, "authorization"), exchange.address)
        return self._admitted(found, scope)

    def _admitted(self, found: Principal, scope: AsgiScope) -> Principal:
        scope["exchange"].actor = found.name
        self.need.admit(found, scope["path_params"])
        return found

    def _decoded(self, decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
        """An absent body means an object without fields."""
        raw = raw or b"{}"
        try:
            if self._limits is not None:
                self._limits.check(raw)
            try:
                return decoder.decode(raw)
            except msgspec.ValidationError as error:
                if "got `float`" not in str(error):
                    raise
            if self._shape is None:
                self._shape = Shape(self.body)
            return decoder.decode(self._shape.rewritten(raw))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise invalid(error, "body", self.body, raw) from None

    def reply(self, answer: Any) -> Reply:
        return answer if isinstance(answer, Reply) else Reply(answer, self.status)


ANYBODY: Final = Principal("", "no key", ())


class _NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Endpoints:
    """The endpoints of one part of the interface, in the order in which they are matched."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Endpoint] = []

    def __call__(
        self,
        method: str,
        path: str,
        *,
        answers: Mapping[int, Any],
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.all.append(Endpoint(method, path, handler, tag=self.tag, answers=answers, **more))
            return handler

        return register


def other_method(allowed: Mapping[str, Endpoint], scope: AsgiScope) -> Reply:
    """The response for a known path with an unsupported method."""
    names = ", ".join(allowed)
    error = HttpError(
        405,
        "MethodNotAllowed",
        f"{scope['method']} is not supported by this path",
        hint=f"Allowed: {names}.",
        headers={"Allow": names},
    )
    return problem_reply(error, scope["exchange"])


def without_slash(scope: AsgiScope) -> Reply:
    """The redirect from a path with a slash at its end to the same path without it."""
    return Reply(b"", 308, {"Location": address_without_slash(scope)})


def address_without_slash(scope: AsgiScope) -> str:
    query = scope["query_string"].decode("latin-1")
    return quote(scope["path"].rstrip("/")) + (f"?{query}" if query else "")


def problem_reply(error: BaseException, exchange: Exchange) -> Reply:
    problem, headers = describe(error)
    problem = in_words_of(exchange.route, problem)
    problem.request_id = exchange.request_id
    if problem.status == 500:
        log.error("request %s failed", exchange.request_id, exc_info=error)
    elif problem.status == 503 and not isinstance(error, HttpError | DatabaseUnavailableError):
        log.warning("request %s was refused: %s", exchange.request_id, error)
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="penstock", charset="UTF-8", Bearer'
    return Reply(problem, problem.status, headers, MEDIA_TYPE)


def encoded(reply: Reply) -> bytes:
    """The encoded body."""
    return reply.body if isinstance(reply.body, bytes) else _encode(reply.body)


def headers_of(reply: Reply, length: int | None) -> list[tuple[bytes, bytes]]:
    """The headers of a reply. The length of a stream is not known."""
    return [
        (b"content-type", reply.media_type.encode()),
        *([] if length is None else [(b"content-length", b"%d" % length)]),
        *((name.lower().encode(), value.encode()) for name, value in reply.headers.items()),
    ]


_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([^\"';\s]*)", re.IGNORECASE)
_UTF_8: Final = ("utf-8", "utf8", "us-ascii")


async def _refuse_body(context: Context, scope: AsgiScope, receive: Receive) -> None:
    """Parameters of a call without a body are in its path and query. An empty object counts as
    absent."""
    headers = scope["exchange"].headers
    if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
        return
    async with context.bodies.read(scope, receive) as raw:
        if raw.strip() not in (b"", b"{}"):
            raise HttpError(
                400,
                "MalformedBody",
                "this call takes no body",
                hint="Send its parameters in the query. See /docs.",
            )


def check_json(scope: AsgiScope) -> None:
    exchange: Exchange = scope["exchange"]
    if exchange.headers.get(b"content-type") == b"application/json":
        return
    kind, _, parameters = (header(scope, "content-type") or "application/json").partition(";")
    kind = kind.strip().lower()
    charset = _CHARSET.search(parameters)
    if charset is not None and charset[1].lower() not in _UTF_8:
        raise HttpError(
            415,
            "UnsupportedMediaType",
            f"the body's charset is {charset[1]!r:.100}",
            hint="Send JSON in UTF-8.",
        )
    if kind != "application/json" and not kind.endswith("+json"):
        raise HttpError(
            415,
            "UnsupportedMediaType",
            f"the body's Content-Type is {kind!r:.100}",
            hint="Send JSON, with `Content-Type: application/json`.",
        )


def _query(kind: Any, text: bytes) -> Any:
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
        found = dict(pairs)
        if len(found) < len(pairs):
            name = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
            detail = f"the parameter {name!r:.100} is given more than once"
            raise HttpError(400, "MalformedQuery", detail, field=name)
        query = msgspec.convert(found, kind, strict=False)
    except UnicodeDecodeError:
        raise HttpError(400, "MalformedQuery", "the query is not UTF-8, percent-encoded") from None
    except msgspec.ValidationError as error:
        raise invalid(error, "query", kind) from None
    for name in found:
        if getattr(query, name) is None:  # msgspec decodes the word null as None
            raise HttpError(400, "MalformedQuery", f"{name} is {found[name]!r:.100}", field=name)
    return query
