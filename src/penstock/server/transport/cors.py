"""Cross-origin requests of browsers, for the origins in `PENSTOCK_HTTP_CORS_ORIGINS`.

Off by default: a browser then refuses to read the answer for a page of another origin. No call
takes cookies, so a page needs an API key, and its calls have no more rights than the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from penstock.server.transport.call import Reply
from penstock.server.transport.exchange import Exchange

_REQUEST_HEADERS: Final = (
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, X-Request-ID"
)
_RESPONSE_HEADERS: Final = "Idempotency-Replayed, Location, Retry-After, X-Request-ID"
# Browsers ask again after two hours at the latest.
_SECONDS: Final = "7200"


class Cors:
    """Without origins it is off, and false in a condition."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def __bool__(self) -> bool:
        return bool(self._origins)

    def _origin(self, exchange: Exchange) -> str | None:
        origin = exchange.headers.get(b"origin", b"").decode("latin-1")
        return origin if origin in self._origins else None

    def preflight(self, exchange: Exchange, methods: Iterable[str]) -> Reply | None:
        """The answer to a preflight request of a browser, or None for other requests."""
        if b"access-control-request-method" not in exchange.headers or not self._origin(exchange):
            return None
        headers = {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": _REQUEST_HEADERS,
            "Access-Control-Max-Age": _SECONDS,
        }
        return Reply(b"", 200, headers, "text/plain")

    def allow(self, exchange: Exchange, reply: Reply) -> Reply:
        """Let pages of the caller's origin read the answer, if the origin is allowed."""
        headers = {**reply.headers, "Vary": "Origin"}
        origin = self._origin(exchange)
        if origin is not None:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = _RESPONSE_HEADERS
        reply.headers = headers
        return reply
