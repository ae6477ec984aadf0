"""Server-sent events: messages as they come, and never more than the credit."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from tests.chaos.server import wait_for


def _events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The events of a stream, without comments."""
    kind, data = "", ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not line and kind:
            yield kind, json.loads(data)
            kind, data = "", ""


def _fill(http: httpx.Client, count: int) -> list[str]:
    body = {"topic": "orders", "messages": [{"json": n} for n in range(count)]}
    ids: list[str] = http.post("/api/messages", json=body).json()["ids"]
    return ids


def _ack(http: httpx.Client, message: dict[str, Any]) -> None:
    body = {"lease_token": message["lease_token"]}
    assert http.post(f"/api/messages/{message['id']}/ack", json=body).status_code == 200


def test_a_head_request_claims_nothing(http: httpx.Client) -> None:
    _fill(http, 1)
    answer = http.head("/api/messages/stream?topic=orders")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert http.get("/api/stats?topic=orders").json()["items"][0]["processing"] == 0


def test_a_stream_has_no_more_messages_than_its_credit(http: httpx.Client) -> None:
    ids = _fill(http, 5)
    query = {"topic": "orders", "credit": 2}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        events = _events(answer)
        held = [next(events)[1], next(events)[1]]
        assert http.get("/api/stats?topic=orders").json()["items"][0]["processing"] == 2
        found = [each["id"] for each in held]
        while len(found) < 5:
            _ack(http, held.pop(0))
            kind, message = next(events)
            assert kind == "message"
            held.append(message)
            found.append(message["id"])
            assert http.get("/api/stats?topic=orders").json()["items"][0]["processing"] <= 2
    assert found == ids


def test_a_stream_gets_what_is_enqueued_while_it_waits(http: httpx.Client) -> None:
    query = {"topic": "orders"}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        events = _events(answer)
        for number in range(3):
            http.post("/api/messages", json={"topic": "orders", "json": {"number": number}})
            _, message = next(events)
            assert message["json"] == {"number": number}
            _ack(http, message)


def test_a_stream_ends_after_its_duration(http: httpx.Client) -> None:
    _fill(http, 1)
    query = {"topic": "orders", "duration_seconds": 0}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        assert [kind for kind, _ in _events(answer)] == ["message", "end"]


def test_a_stream_ends_when_the_server_stops(start_process: Any, make_key: Any) -> None:
    process = start_process()
    headers = {"Authorization": f"Bearer {make_key('consumer', 'consume')}"}
    url = f"{process.url}/api/messages/stream"
    with httpx.stream("GET", url, params={"topic": "orders"}, headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        assert process.stop() == 0
        assert "event: end" in list(lines)


def test_a_strict_stream_of_no_topic_is_refused(http: httpx.Client) -> None:
    answer = http.get(
        "/api/messages/stream", params={"topic": "none"}, headers={"Prefer": "handling=strict"}
    )
    assert (answer.status_code, answer.json()["code"]) == (404, "QueueNotFoundError")


def _states(db: psycopg.Connection[Any]) -> list[tuple[str, int]]:
    found = db.execute("select state, attempt from penstock.messages order by id")
    return [(state, attempt) for state, attempt in found]


@pytest.mark.parametrize("change", ["revoke", "expire", "narrow"])
def test_a_stream_ends_when_its_key_does_and_gets_no_later_message(
    http: httpx.Client,
    open_client: Any,
    make_key: Any,
    web: Any,
    db: psycopg.Connection[Any],
    change: str,
) -> None:
    consumer = open_client(make_key("consumer", "consume:orders"))
    _fill(http, 1)
    with consumer.stream("GET", "/api/messages/stream", params={"topic": "orders"}) as answer:
        events = _events(answer)
        _, message = next(events)
        if change == "revoke":
            assert http.delete("/api/keys/consumer").status_code == 200
        elif change == "expire":
            db.execute(
                "update penstock.api_key set expires_at = clock_timestamp(), created_at ="
                " created_at - interval '1 day' where name = 'consumer'"
            )
            web.server.context.auth.forget()
        else:
            db.execute(
                "update penstock.api_key set grants = array['enqueue:orders']"
                " where name = 'consumer'"
            )
            web.server.context.auth.forget()
        _ack(http, message)
        _fill(http, 1)
        [(kind, problem)] = list(events)
    assert (kind, problem["status"]) == ("error", 403 if change == "narrow" else 401)
    wait_for(lambda: _states(db) == [("ready", 0)], "the message went back", 20)


def test_a_message_that_another_consumer_has_takes_no_credit(
    http: httpx.Client, db: psycopg.Connection[Any]
) -> None:
    _fill(http, 1)
    query = {"topic": "orders", "credit": 1}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        events = _events(answer)
        _, message = next(events)
        with db.transaction():
            lease = [message["id"], message["lease_token"]]
            db.execute("select penstock.nack(%s::bigint, %s::bigint, null, '0')", lease)
            [(taken,)] = db.execute("select id from penstock.claim('orders', 1, 600, 'another')")
        assert str(taken) == message["id"]
        [second] = _fill(http, 1)
        assert next(events)[1]["id"] == second


def test_the_credit_of_an_expired_lease_returns(http: httpx.Client) -> None:
    [id] = _fill(http, 1)
    query = {"topic": "orders", "credit": 1, "visibility_timeout_seconds": 1}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        events = _events(answer)
        found = [next(events)[1], next(events)[1]]
    assert [(each["id"], each["attempt"]) for each in found] == [(id, 1), (id, 2)]


def test_a_settle_on_another_server_returns_the_credit(
    http: httpx.Client, start_server: Any, open_client: Any, make_key: Any
) -> None:
    other = open_client(make_key("other", "admin"), start_server())
    ids = _fill(http, 3)
    query = {"topic": "orders", "credit": 1}
    with http.stream("GET", "/api/messages/stream", params=query) as answer:
        events = _events(answer)
        for id in ids:
            _, message = next(events)
            assert message["id"] == id
            _ack(other, message)


def test_messages_that_a_broken_connection_has_not_sent_go_back(
    http: httpx.Client, web: Any, make_key: Any, db: psycopg.Connection[Any]
) -> None:
    count = 20
    body = {"topic": "orders", "messages": [{"json": "x" * 250_000} for _ in range(count)]}
    assert http.post("/api/messages", json=body).status_code == 201
    address = urlsplit(web.url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((address.hostname, address.port))
        connection.sendall(
            b"GET /api/messages/stream?topic=orders&credit=%d HTTP/1.1\r\nHost: x\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % (count, make_key("slow", "consume").encode())
        )
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_for(lambda: _states(db) == [("leased", 1)] * count, "all are claimed", 60)
    wait_for(lambda: ("ready", 0) in _states(db), "the messages that were not sent go back", 20)
