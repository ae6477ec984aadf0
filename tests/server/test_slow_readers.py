"""Callers that ask for large answers and do not read them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from tests.chaos.server import wait_for

Db = psycopg.Connection[Any]
pytestmark = pytest.mark.fast_paths("uvicorn does not limit answers that callers do not read")
LIST = "GET /api/messages?topic=large&limit=1000"
STREAM = "GET /api/messages/stream?topic=large&credit=1000"


@contextmanager
def not_reading(url: str, key: str, request: str, count: int = 1) -> Iterator[None]:
    """Callers that have sent a request and read nothing of the answer."""
    address = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(count):
            opened = stack.enter_context(socket.socket())
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.connect((address.hostname, address.port))
            text = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
            opened.sendall(text.encode("ascii"))
        yield


def fill(db: Db, count: int) -> None:
    """Messages of 250 kB: the buffers of a connection have room for some of them."""
    db.execute("select penstock.create_queue('large')")
    db.execute(
        "select count(*) from penstock.enqueue_many('large',"
        " array_fill(to_jsonb(repeat('x', 250000)), array[%s::integer]))",
        [count],
    )


@pytest.mark.parametrize("request_line", [LIST, STREAM])
def test_a_connection_whose_caller_does_not_read_is_closed(
    start_server: Any, make_key: Any, db: Db, request_line: str
) -> None:
    fill(db, 40)
    running = start_server(write_seconds=1)
    server = running.server
    with not_reading(running.url, make_key("slow", "admin"), request_line):
        wait_for(lambda: server.context.answers.bytes, "the answer is waiting", 30)
        wait_for(lambda: not server.server_state.connections, "it is closed", 30)
        wait_for(lambda: server.context.answers.bytes == 0, "nothing is counted", 10)


def test_messages_go_back_if_there_is_no_room_for_them_after_their_claim(
    start_server: Any, make_key: Any, open_client: Any, db: Db
) -> None:
    fill(db, 10)
    running = start_server(answers_bytes=2**20)
    key = make_key("admin", "admin")
    assert open_client(key, running).get("/api/messages").status_code == 200  # the key is known
    address = urlsplit(running.url)
    body = '{"topic": "large", "count": 10}'
    # With one write, so that the server handles it without a task.
    request = (
        "POST /api/messages/dequeue HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    # There is room when the call arrives, because an answer of one byte is waiting.
    with (
        running.server.context.answers.holding(1),
        socket.create_connection((address.hostname, address.port), 30) as opened,
    ):
        opened.sendall(request.encode("ascii"))
        assert opened.recv(100).startswith(b"HTTP/1.1 503 ")
    leased = "select count(*) from penstock.messages where state = 'leased'"
    wait_for(lambda: db.execute(leased).fetchone() == (0,), "the messages went back", 20)


def test_large_answers_are_refused_while_others_are_not_read(
    start_server: Any, make_key: Any, open_client: Any, db: Db
) -> None:
    fill(db, 40)
    running = start_server(answers_bytes=2**20)
    key = make_key("admin", "admin")
    client: httpx.Client = open_client(key, running)
    claim = {"topic": "large", "count": 10}
    with not_reading(running.url, key, LIST):
        wait_for(lambda: running.server.context.answers.bytes > 2**20, "it is waiting", 30)
        for answer in (
            client.get("/api/messages", params={"topic": "large"}),
            client.post("/api/messages/dequeue", json=claim),
            client.get("/api/messages/stream", params={"topic": "large"}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "ServerBusy")
            assert answer.headers["retry-after"] == "1"
        leased = "select count(*) from penstock.messages where state = 'leased'"
        wait_for(lambda: db.execute(leased).fetchone() == (0,), "the messages went back", 20)
        assert client.post("/api/messages", json={"topic": "small", "json": 1}).status_code == 201
        [small] = client.post("/api/messages/dequeue", json={"topic": "small"}).json()["messages"]
        token = {"lease_token": small["lease_token"]}
        assert client.post(f"/api/messages/{small['id']}/ack", json=token).status_code == 200
    wait_for(lambda: running.server.context.answers.bytes == 0, "the caller has gone", 30)
    assert len(client.post("/api/messages/dequeue", json=claim).json()["messages"]) == 10
