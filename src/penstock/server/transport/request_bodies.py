"""Reads request bodies under limits on the size of one, the size of all, and the time."""

from __future__ import annotations

import asyncio
import zlib
from types import TracebackType

from starlette.types import Receive, Scope

from penstock.server.settings import ServerSettings
from penstock.server.transport.problems import HttpError
from penstock.server.transport.protocol import is_whole, look_at_small, take_small

# The rest of a refused body is not read.
_CLOSE = {"Connection": "close"}


class Bodies:
    """Counts the bytes of all bodies in memory."""

    def __init__(self, settings: ServerSettings) -> None:
        self._one = settings.max_body_bytes
        self._all = settings.bodies_bytes
        self._seconds = settings.body_seconds
        self._held = 0

    def read(self, scope: Scope, receive: Receive) -> Reading:
        """An async context with the complete, decompressed body. Its bytes count until the end."""
        encoding, length = _headers(scope)
        if length > self._one:
            raise self._too_large()
        return Reading(self, scope, receive, encoding)

    def take_small(self, reading: Reading) -> bytes | None:
        """The fast path: a small, uncompressed body that has already arrived."""
        if reading.encoding:
            return None
        body = take_small(reading.scope, min(self._one, self._all - self._held))
        if body is not None:
            self._take(len(body), reading.taken)
        return body

    def look(self, scope: Scope) -> bytes | None:
        """Such a body, which stays to be received. It counts until `leave`."""
        encoding, length = _headers(scope)
        if encoding or length > self._one:
            return None
        body = look_at_small(scope, min(self._one, self._all - self._held))
        if body is not None:
            self._held += len(body)
        return body

    def leave(self, body: bytes) -> None:
        self._held -= len(body)

    async def begin(self, reading: Reading) -> bytes:
        if is_whole(reading.scope):
            packed = await self._receive(reading.receive, reading.taken)
        else:
            packed = await self._in_time(reading.receive, reading.taken)
        if reading.encoding:
            return self._unpacked(packed, reading.encoding, reading.taken)
        return packed

    def end(self, reading: Reading) -> None:
        self._held -= reading.taken[0]

    async def _in_time(self, receive: Receive, taken: list[int]) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._receive(receive, taken)
        except TimeoutError:
            raise HttpError(
                408,
                "BodyTooSlow",
                f"the body did not arrive within {self._seconds} s",
                headers=_CLOSE,
            ) from None

    async def _receive(self, receive: Receive, taken: list[int]) -> bytes:
        message = await receive()
        first = message.get("body", b"")
        self._take(len(first), taken)
        if not message.get("more_body"):
            _check_connected(message["type"])
            return first  # type: ignore[no-any-return]  # ASGI says bytes
        parts = [first]
        while message.get("more_body"):
            message = await receive()
            _check_connected(message["type"])
            part = message.get("body", b"")
            self._take(len(part), taken)
            parts.append(part)
        return b"".join(parts)

    def _take(self, count: int, taken: list[int]) -> None:
        taken[0] += count
        self._held += count
        if taken[0] > self._one:
            raise self._too_large()
        if self._held > self._all:
            raise HttpError(
                503,
                "ServerBusy",
                "the bodies of all requests together exceed the server's limit",
                hint="Try again in a moment, or send smaller batches.",
                headers={"Retry-After": "1", **_CLOSE},
            )

    def _unpacked(self, packed: bytes, encoding: str, taken: list[int]) -> bytes:
        if encoding != "gzip":
            raise HttpError(
                415,
                "UnsupportedEncoding",
                f"the body's Content-Encoding is {encoding!r:.100}",
                hint="Send it uncompressed, or with gzip.",
            )
        unpacker = zlib.decompressobj(31)
        try:
            body = unpacker.decompress(packed, self._one - taken[0] + 1)
        except zlib.error as error:
            raise HttpError(400, "MalformedBody", f"the body is not gzip: {error}") from None
        self._take(len(body), taken)
        if not unpacker.eof or unpacker.unused_data:
            raise HttpError(400, "MalformedBody", "the body is not a single complete gzip stream")
        return body

    def _too_large(self) -> HttpError:
        return HttpError(
            413,
            "BodyTooLarge",
            f"the body has more than {self._one} bytes",
            hint="Send fewer messages at a time, or store the bulk elsewhere.",
            headers=_CLOSE,
            limit=self._one,
        )


class Reading:
    """One body in memory. Not a generator, which would take longer than the reading."""

    __slots__ = ("_bodies", "encoding", "receive", "scope", "taken")

    def __init__(self, bodies: Bodies, scope: Scope, receive: Receive, encoding: str) -> None:
        self._bodies = bodies
        self.scope = scope
        self.receive = receive
        self.encoding = encoding
        self.taken = [0]

    async def __aenter__(self) -> bytes:
        body = self._bodies.take_small(self)
        if body is not None:
            return body
        try:
            return await self._bodies.begin(self)
        except BaseException:
            self._bodies.end(self)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bodies.end(self)


class Disconnected(BaseException):
    """The caller has closed its connection.

    Not an Exception, like CancelledError, so that error handlers let it pass.
    """


def _check_connected(kind: str) -> None:
    if kind == "http.disconnect":
        raise Disconnected


def _headers(scope: Scope) -> tuple[str, int]:
    headers: dict[bytes, bytes] = scope["exchange"].headers
    named = headers.get(b"content-encoding")
    encoding = "" if named is None else named.decode("latin-1").strip().lower()
    value = headers.get(b"content-length", b"")
    # The HTTP parser has checked it already, so other values count as absent.
    length = int(value) if value.isdigit() and len(value) < 20 else 0
    return ("" if encoding == "identity" else encoding), length
