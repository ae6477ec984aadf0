"""Callers that close their connection before the answer: what was claimed for them goes back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.chaos.server import wait_for

from penstock import operations
from penstock.commands.http_verbs import PROTOCOL, pack

Db = psycopg.Connection[Any]
CALLERS = 40
COOKIE = "penstock_session"
WITH_A_BODY = ["/login", "/theme", "/queues/orders/pause", "/api/messages", "/api/verbs"]
CLAIM = {
    "verb": "claim",
    "arguments": {name: pack(value) for name, value in operations.claim("orders").params.items()},
}
CLAIMS: dict[str, tuple[str, Any]] = {
    "data plane": ("/api/messages/dequeue", {"topic": "orders"}),
    "client": ("/api/verbs", {"calls": [CLAIM]}),
}


@pytest.fixture
def key(web: Any, make_key: Any, open_client: Any, db: Db) -> str:
    db.execute("select penstock.create_queue('orders')")
    token: str = make_key("consumer", "admin")
    open_client(token).get("/api/stats").raise_for_status()  # it is known from now on
    return token


@contextmanager
def callers(url: str, key: str, path: str, body: Any) -> Iterator[None]:
    """Many that have sent a request; at the end of the block they have all gone."""
    address = urlsplit(url)
    content = json.dumps(body)
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nPenstock-Protocol: {PROTOCOL}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n{content}"
    )
    opened = []
    for _ in range(CALLERS):
        connection = socket.create_connection((address.hostname, address.port))
        connection.sendall(request.encode("ascii"))
        opened.append(connection)
    yield
    for connection in opened:
        connection.close()


def fill(db: Db) -> None:
    db.execute("select penstock.enqueue('orders', to_jsonb(n)) from generate_series(1, 40) n")


def all_are_ready_again(db: Db) -> bool:
    states = db.execute("select state, attempt, count(*) from penstock.messages group by 1, 2")
    return states.fetchall() == [("ready", 0, CALLERS)]


def test_aborted_long_polls_leave_no_message_leased(web: Any, key: str, db: Db) -> None:
    body = {"topic": "orders", "wait_seconds": 20}
    dispatcher = web.server.context.long_polls
    with callers(web.url, key, "/api/messages/dequeue", body):
        wait_for(lambda: dispatcher.waiting == CALLERS, "all wait", 60)
    fill(db)
    wait_for(lambda: dispatcher.waiting == 0, "no caller waits", 60)
    wait_for(lambda: all_are_ready_again(db), "no message is leased", 20)


@pytest.mark.fast_paths("uvicorn does not say that a caller has gone before the response")
@pytest.mark.parametrize("way", CLAIMS)
def test_a_claim_under_way_for_callers_that_have_gone_is_given_back(
    web: Any, key: str, db: Db, dsn: str, way: str
) -> None:
    fill(db)
    server = web.server
    with psycopg.connect(dsn) as holder:
        holder.execute("lock table penstock.queue in access exclusive mode")
        with callers(web.url, key, *CLAIMS[way]):
            wait_for(lambda: len(server.server_state.connections) >= CALLERS, "all are here", 60)
            waiting = (
                "select count(*) from pg_locks join pg_database on pg_database.oid = database"
                " where not granted and datname = current_database()"
            )
            wait_for(lambda: db.execute(waiting).fetchone() != (0,), "a claim is under way", 60)
        wait_for(lambda: len(server.server_state.connections) <= 1, "all have gone", 60)
        holder.rollback()
    settled = "select count(*) from penstock.attempts"
    wait_for(lambda: server.context.database._running == 0, "all claims are done", 60)
    wait_for(lambda: all_are_ready_again(db), "no message is leased", 20)
    assert db.execute(settled).fetchone() == (0,), "no attempt was counted"


def test_callers_that_go_in_the_middle_of_a_body_are_no_failure_of_the_server(
    web: Any, key: str, open_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(key)
    client.post("/login", data={"key": key})
    address = urlsplit(web.url)
    for path in WITH_A_BODY:
        request = (
            f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n"
            f"Cookie: {COOKIE}={client.cookies[COOKIE]}\r\nContent-Length: 1000\r\n\r\nkey="
        )
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(request.encode("ascii"))

    def counted(status: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        ours = [line for line in lines if line.startswith("penstock_http_requests_total{")]
        return sum(float(line.split()[-1]) for line in ours if f'status="{status}"' in line)

    wait_for(lambda: counted("499") + counted("500") == len(WITH_A_BODY), "all are counted", 30)
    assert counted("500") == 0
    assert "failed" not in caplog.text
