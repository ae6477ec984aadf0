"""POSTs to URLs: no redirects, no proxies, and only to allowed addresses.

The host name is resolved and checked when a connection is opened, and the connection goes to the
checked address. So a name whose address changes later reaches nothing else.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore

from penstock.errors import InvalidValueError
from penstock.push.networks import AllowedNetworks

# How much of an answer is read.
ANSWER_BYTES: Final = 16_384
KEEP_SECONDS: Final = 30.0
# A longer Retry-After counts as absent.
LONGEST_RETRY_SECONDS: Final = 86_400.0


class SendError(Exception):
    """The request got no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, and the beginning of the body."""

    status: int
    retry_after: float
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpSender:
    """Connections to endpoints, which are kept open for a while."""

    def __init__(self, allowed: AllowedNetworks, max_connections: int = 1000) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=max_connections,
            max_keepalive_connections=100,
            keepalive_expiry=KEEP_SECONDS,
            http1=True,
            network_backend=_CheckedBackend(allowed),
        )

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> Answer:
        """The answer. SendError if none arrives in time."""
        names = [(name.encode(), value.encode()) for name, value in headers.items()]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), timeout)
        extensions = {"timeout": limits}
        try:
            async with (
                asyncio.timeout(timeout),
                self._pool.stream(
                    "POST",
                    url.encode(),
                    headers=names,
                    content=body,
                    extensions=extensions,
                ) as response,
            ):
                found = _retry_after(response.headers)
                return Answer(response.status, found, await _beginning(response))
        except TimeoutError:
            raise SendError(f"no answer within {timeout:g} s") from None
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise SendError(str(error) or type(error).__name__) from error
        except (OSError, ssl.SSLError) as error:
            raise SendError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._pool.aclose()


async def _beginning(response: httpcore.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_stream():
        parts.append(part)
        size += len(part)
        if size >= ANSWER_BYTES:
            break
    return b"".join(parts)[:ANSWER_BYTES]


def _retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float:
    """The seconds of Retry-After, which is a number or a date. More than a day is too long."""
    found = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    text = found.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return seconds if 0 < seconds <= LONGEST_RETRY_SECONDS else 0.0


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses."""

    def __init__(self, allowed: AllowedNetworks) -> None:
        self._allowed = allowed
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        error: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in await _resolved(host, port):
            if not self._allowed.allow(address):
                error = httpcore.ConnectError(
                    f"{host} has the address {address}, which is in a private network"
                )
                continue
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _resolved(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"{host}: {error}") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def check_url(url: str, allowed: AllowedNetworks) -> str:
    """The URL of an endpoint. InvalidValueError if requests can never go there."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused(url) from None
    is_text = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or port == 0 or not is_text:
        raise _refused(url)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _refused(url)
    try:
        is_allowed = allowed.allow(host)
    except ValueError:
        return url  # a name, which is checked when a connection is opened
    if not is_allowed:
        raise InvalidValueError(
            f"{host} is in a private network",
            hint="Allow the network with PENSTOCK_PUSH_NETWORKS.",
            field="url",
        )
    return url


def _refused(url: str) -> InvalidValueError:
    allowed = "https://host/path or http://host/path, without a user, a password and a fragment"
    return InvalidValueError(f"the URL {url!r:.200} is not allowed; allowed: {allowed}",
                             field="url", allowed=allowed)  # fmt: skip
