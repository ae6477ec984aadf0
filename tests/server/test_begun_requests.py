"""Requests that are answered without a separate task behave like all others."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

Call = Callable[..., httpx.Response]


@pytest.fixture
def call(
    start_server: Callable[..., Any],
    open_client: Callable[..., httpx.Client],
    make_key: Callable[..., str],
) -> Call:
    """POSTs to a server that has room for few bodies at a time: what is not let go is missed."""
    running = start_server(max_body_bytes=1024, bodies_bytes=1024)
    client = open_client(make_key("admin", "admin"), running)

    def post(path: str, body: Any, **headers: str) -> httpx.Response:
        return client.post(path, content=json.dumps(body), headers=headers)

    return post


def test_bodies_are_let_go_however_the_request_ends(call: Call) -> None:
    ends = [
        ("/api/messages", {"topic": "orders", "json": 1}, 201),
        ("/api/messages", {"topic": "orders", "json": "x" * 600}, 201),
        ("/api/messages", {"topic": "orders", "jsn": "x" * 600}, 400),
        ("/api/messages", {"topic": "orders", "json": "\0" * 90}, 422),
        ("/api/messages", {"topic": "of its own", "json": "x" * 600}, 422),
        ("/api/messages/dequeue", {"topic": "orders", "worker": "w" * 100}, 200),
        ("/api/messages/dequeue", {"topic": "nowhere", "worker": "w" * 100}, 200),
        ("/api/messages/1/ack", {"lease_token": "123456789"}, 409),
        ("/api/messages/no-number/ack", {"lease_token": "123456789"}, 422),
    ]
    for _ in range(12):
        for path, body, status in ends:
            answer = call(path, body)
            assert answer.status_code == status, answer.text
    for number in range(12):
        assert call("/api/messages", {"topic": f"new-{number}", "json": 1}).status_code == 201


def test_a_topic_that_nobody_made_is_a_404_for_the_strict(call: Call) -> None:
    for path in ("/api/messages", "/api/messages/dequeue"):
        body = {"topic": "nowhere"} | ({} if path.endswith("dequeue") else {"json": 1})
        answer = call(path, body, Prefer="handling=strict", **{"X-Request-Id": "mine"})
        assert answer.status_code == 404
        assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine"


def test_an_answer_is_packed_where_that_is_asked_for(call: Call) -> None:
    call("/api/messages", {"topic": "orders", "json": "x" * 900}).raise_for_status()
    answer = call("/api/messages/dequeue", {"topic": "orders"}, **{"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["messages"][0]["json"] == "x" * 900


def test_requests_sent_in_one_piece_are_answered_in_their_order(
    web: Any, make_key: Callable[..., str]
) -> None:
    key = make_key("admin", "admin")
    head = f"Host: x\r\nAuthorization: Bearer {key}\r\n"

    def request(path: str, body: Any, more: str = "") -> bytes:
        text = json.dumps(body)
        lines = f"POST {path} HTTP/1.1\r\n{head}{more}Content-Length: {len(text)}\r\n\r\n"
        return (lines + text).encode()

    requests = [
        request("/api/messages", {"topic": "orders", "json": 1}),
        request("/api/messages/dequeue", {"topic": "orders"}),
        request("/api/messages/dequeue", {"topic": "orders"}),
        request("/api/messages/9/ack", {"lease_token": "9"}, "Connection: close\r\n"),
    ]
    parts = urlsplit(web.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as line:
        line.sendall(b"".join(requests))
        received = b""
        while piece := line.recv(65536):
            received += piece
    statuses = [each[:3] for each in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"201", b"200", b"200", b"409"]
    assert received.count(b'"topic":"orders"') == 1
