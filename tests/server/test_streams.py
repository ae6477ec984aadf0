"""Server-sent events: messages as they come, and never more than the credit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx


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
