"""The clients of `bench http`: keep-alive connections on one event loop, requests made beforehand.

As little as can be done for a request in Python, so that the server is what is measured; and the
same for the server under test as for the static one.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from penstock_benchmarks.errors import BenchError

_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
Step = Callable[["LoadConnection"], Awaitable[int]]
"""One turn of a client; how many messages it moved."""


class LoadConnection(asyncio.Protocol):
    """One connection: a request out, its answer in."""

    def __init__(self, host: str, key: str) -> None:
        self._head = f"Host: {host}\r\nAuthorization: Bearer {key}\r\n".encode()
        self._received = b""
        self._needed = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BenchError("the server closed a connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            found = _LENGTH.search(self._received, 0, end + 2)
            self._needed = end + 4 + (int(found[1]) if found else 0)
        if len(self._received) >= self._needed and self._answer is not None:
            answer, self._received, self._needed = self._received, b"", 0
            self._answer.set_result(answer)

    def request(self, path: str, body: bytes) -> bytes:
        """A POST, ready to send."""
        head = f"POST {path} HTTP/1.1\r\n".encode() + self._head
        more = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        return head + more + body

    async def send(self, request: bytes) -> bytes:
        """The body of the answer; a refusal ends the benchmark."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        answer = await self._answer
        if not answer.startswith(b"HTTP/1.1 2"):
            raise BenchError(f"the server answered {answer[:300].decode(errors='replace')}")
        return answer[answer.index(b"\r\n\r\n") + 4 :]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(url: str, key: str) -> LoadConnection:
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(
        lambda: LoadConnection(parts.netloc, key), parts.hostname or "", parts.port or 80
    )
    return line


@dataclass(frozen=True)
class Traffic:
    """What all clients together moved in one window."""

    seconds: float
    messages: int

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


async def run_window(lines: Sequence[LoadConnection], step: Step, seconds: float) -> Traffic:
    """Every client takes turn after turn; the first tenth is not counted."""
    start = time.monotonic() + seconds * 0.1
    end = start + seconds

    async def client(line: LoadConnection) -> int:
        moved = 0
        while (now := time.monotonic()) < end:
            count = await step(line)
            moved += count if now >= start else 0
        return moved

    moved = await asyncio.gather(*(client(line) for line in lines))
    return Traffic(time.monotonic() - start, sum(moved))


def enqueue_step(line: LoadConnection, topic: str, payload: bytes, batch: int) -> bytes:
    """The request that enqueues so many messages."""
    if batch == 1:
        return line.request(
            "/api/messages", b'{"topic":"%s","json":%s}' % (topic.encode(), payload)
        )
    messages = b",".join([b'{"json":%s}' % payload] * batch)
    body = b'{"topic":"%s","messages":[%s]}' % (topic.encode(), messages)
    return line.request("/api/messages", body)


def dequeue_request(line: LoadConnection, topic: str, batch: int, wait_seconds: int = 0) -> bytes:
    body = {"topic": topic, "count": batch, "wait_seconds": wait_seconds}
    return line.request("/api/messages/dequeue", json.dumps(body).encode())


_LEASE: Final = re.compile(rb'\{"id":"(\d+)".*?"lease_token":"(\d+)"\}', re.DOTALL)


def lease_ids(answer: bytes) -> list[int]:
    """The messages that a dequeue answered with."""
    return [int(id) for id, _ in _LEASE.findall(answer)]


def settle_request(line: LoadConnection, answer: bytes) -> tuple[bytes, int]:
    """The request that acks what a dequeue answered with, and how many that is."""
    leases = _LEASE.findall(answer)
    if len(leases) == 1:
        id, token = leases[0]
        path = f"/api/messages/{id.decode()}/ack"
        return line.request(path, b'{"lease_token":"%s"}' % token), 1
    settled = b",".join(b'{"id":"%s","lease_token":"%s"}' % lease for lease in leases)
    return line.request("/api/messages/settle", b'{"messages":[%s]}' % settled), len(leases)
