"""What a server must survive: bodies without end, silent connections, tricks in every part."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

MEMORY = 300 * 2**20
Start = Callable[..., Any]


@pytest.fixture
def process(start_process: Start) -> Any:
    return start_process(PENSTOCK_HTTP_IDLE_SECONDS="5")


@pytest.fixture
def key(make_key: Callable[..., str]) -> str:
    return make_key("mayhem", "admin")


@pytest.fixture
def caller(process: Any, key: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=process.url, headers=headers, timeout=60, verify=False) as client:
        yield client


def dial(process: Any) -> socket.socket:
    parts = urlsplit(process.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)


def talk(process: Any, data: bytes, patience: float = 30) -> bytes:
    """Sends bytes, and reads the answer until the server closes or falls silent."""
    with dial(process) as line:
        line.settimeout(patience)
        with contextlib.suppress(ConnectionError):
            line.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            while chunk := line.recv(65536):
                received += chunk
                if b"\r\n\r\n" in received and b"content-length" in received.lower():
                    break
        return received


def head(key: str, path: str = "/api/messages", **more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_bodies_without_end_are_refused_in_little_memory(
    process: Any, key: str, caller: httpx.Client
) -> None:
    declared = head(key, Content_Type="application/json", Content_Length=str(2**30))
    assert talk(process, declared + b"x" * 1000).startswith(b"HTTP/1.1 413")
    endless = head(key, Content_Type="application/json", Transfer_Encoding="chunked")
    chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"
    with dial(process) as line:
        line.sendall(endless)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            for _ in range(1024):
                line.sendall(chunk)
        line.settimeout(10)
        with contextlib.suppress(ConnectionError, TimeoutError):
            assert line.recv(100).startswith(b"HTTP/1.1 413")
    assert caller.get("/healthz/ready").status_code == 200
    assert process.memory_bytes() < MEMORY


def test_a_slow_body_is_not_waited_for(start_process: Start, key: str) -> None:
    process = start_process(PENSTOCK_HTTP_BODY_SECONDS="2")
    slow = head(key, Content_Type="application/json", Content_Length="100")
    assert talk(process, slow + b"{").startswith(b"HTTP/1.1 408")


@pytest.mark.fast_paths("uvicorn has no limit on the size of a head")
def test_a_head_that_never_ends_is_closed(process: Any) -> None:
    assert talk(process, b"GET / HTTP/1.1\r\n") == b""
    large = b"GET / HTTP/1.1\r\n" + b"X-A: " + b"a" * 200_000
    assert talk(process, large).startswith(b"HTTP/1.1 431")


def test_a_connection_is_closed_when_nothing_comes_but_not_while_it_waits_for_an_answer(
    start_process: Start, key: str
) -> None:
    process = start_process(PENSTOCK_HTTP_IDLE_SECONDS="3")
    body = b'{"topic":"empty","wait_seconds":5}'
    length = str(len(body))
    poll = head(
        key, "/api/messages/dequeue", Content_Type="application/json", Content_Length=length
    )
    with dial(process) as line:
        line.sendall(poll + body)
        received = line.recv(65536)
        assert received.startswith(b"HTTP/1.1 200")
        while part := line.recv(65536):
            received += part
        assert received.endswith(b'{"messages":[]}')


def test_json_nested_without_end_is_refused(caller: httpx.Client) -> None:
    for body in (b"[" * 100_000, b'{"json":' * 100_000, b'{"topic":"q","json":' + b"[" * 5_000_000):
        answer = caller.post("/api/messages", content=body)
        assert answer.status_code == 400, answer.text
    deep = b'{"topic":"q","json":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    assert caller.post("/api/messages", content=deep).status_code in (201, 400, 422)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1000, id="short"),
        pytest.param(10_000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_silent_connections_cost_little_and_keep_nobody_out(
    start_process: Start, key: str, count: int
) -> None:
    process = start_process(PENSTOCK_HTTP_IDLE_SECONDS="300")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(
            f"{count} connections need more files than the {hard} that this user may open. "
            f"As root: ulimit -Hn {count + 500}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 500), hard))
    lines = []
    try:
        for _ in range(count):
            lines.append(dial(process))
        headers = {"Authorization": f"Bearer {key}"}
        for _ in range(20):
            answer = httpx.get(
                f"{process.url}/api/stats", headers=headers, verify=False, timeout=60
            )
            assert answer.status_code == 200
        assert process.memory_bytes() < MEMORY
    finally:
        for line in lines:
            line.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api/messages/%2e%2e%2f%2e%2e HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET //evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://evil.example/api/stats HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"TRACE /api/stats HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nX\x00Y: a\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nAuthorization: \xff\xfe\r\n\r\n",
        b"GET /api/stats HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /api/stats HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n\r\n\r\n",
    ],
    ids=lambda data: repr(data)[2:60],
)
def test_a_trick_is_refused_and_the_next_caller_served(
    shared: httpx.Client, request_bytes: bytes
) -> None:
    class Target:
        url = str(shared.base_url)

    # Empty lines are not a request: the server waits for one.
    answer = talk(Target, request_bytes, patience=30 if request_bytes.strip() else 2)
    assert answer == b"" or answer[9:10] in (b"3", b"4"), answer[:200]
    assert shared.get("/healthz/live").status_code == 200


NASTY = [
    "'; drop table penstock.queue; --",
    "<script>alert(1)</script>",
    "\u202e\u0000\ud7ff",
    "%s%s%s {0} ${x} {{7*7}}",
    "../../../etc/passwd",
    "a" * 2000,
    "\n\r\t\x1b[31m",
    "\U0001f600" * 200,
]


@pytest.mark.parametrize("text", NASTY, ids=lambda text: repr(text)[:30])
def test_nasty_text_in_every_field_is_refused_or_stored_faithfully(
    shared: httpx.Client, text: str
) -> None:
    for field in ("topic", "key", "group", "json", "metadata", "payload"):
        value = {"x": text} if field == "metadata" else text
        body = {"topic": "nasty", "json": 1, field: value}
        if field == "payload":
            del body["json"]
        answer = shared.post("/api/messages", content=json.dumps(body))
        answer = answer if answer.status_code != 415 else shared.post("/api/messages", json=body)
        assert answer.status_code in (201, 400, 413, 422), (field, answer.text)
        if answer.status_code == 201:
            shown = shared.get(f"/api/messages/{answer.json()['id']}").json()
            assert shown[field] == value, field
    paths = ("/api/messages/{}", "/api/topic-configs/{}", "/managed-services/{}/queues",
             "/managed-services/local/queues/{}", "/api/messages?error={}", "/api/stats?topic={}",
             "/login?next={}", "/{}")  # fmt: skip
    for path in paths:
        answer = shared.get(path.format(quote(text.encode("utf-8", "surrogatepass"))))
        assert answer.status_code < 500, path
        assert "<script>" not in answer.text
    for header in ("X-Request-Id", "Prefer", "Idempotency-Key", "Authorization"):
        with contextlib.suppress(UnicodeEncodeError, httpx.LocalProtocolError):
            answer = shared.get("/api/stats", headers={header: text})
            assert answer.status_code < 500, header
