"""Errors use the words of HTTP, and what a call does not know is refused."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

FOREIGN = re.compile(
    r"select penstock|=>|got `|Expected|create_queue|lease_seconds|msgspec|Unicode escape|a queue\b"
    r"|matches \^"
)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "says"),
    [
        ("GET", "/api/topic-configs/none", None, "QueueNotFoundError", "topic 'none' does not"),
        ("POST", "/api/topic-configs", {"topic": "orders"}, "QueueExistsError", "topic 'orders'"),
        ("DELETE", "/api/topics/orders", None, "QueueNotEmptyError", "topic 'orders' is not empty"),
        ("POST", "/api/messages",
         {"topic": "orders", "json": 1, "key": "k", "on_conflict": "error"},
         "KeyConflictError", "key 'k'"),
        ("POST", "/api/messages", {"topic": "orders", "json": 1, "metadata": {"x": "y" * 20_000}},
         "InvalidValueError", "metadata is"),
        ("POST", "/api/messages/dequeue", {"topic": "orders", "count": "x"}, "MalformedBody",
         "count must be a whole number from 1 to 1000"),
        ("POST", "/api/messages/dequeue", {"topic": "orders", "count": 0}, "InvalidValueError",
         "count must be a whole number from 1 to 1000"),
        ("POST", "/api/messages/dequeue", {"topic": "No"}, "InvalidValueError",
         "topic must be 1 to 128 lowercase letters"),
        ("POST", "/api/messages/dequeue", {}, "MalformedBody", "the body lacks topic"),
        ("POST", "/api/messages/dequeue", {"topic": "orders", "number": 1}, "MalformedBody",
         "unknown field, 'number'"),
        ("POST", "/api/messages/settle", {"messages": [{"id": "1", "lease_token": 2}]},
         "MalformedBody", "lease_token must be the token of the lease"),
        ("GET", "/api/messages?limit=x", None, "MalformedQuery",
         "limit must be a whole number from 1 to 1000"),
        ("GET", "/api/messages?colour=red", None, "MalformedQuery", "unknown parameter, 'colour'"),
        ("GET", "/api/topic-configs?limit=1", None, "MalformedQuery", "no parameter 'limit'"),
        ("POST", "/api/topics/orders/purge", {"max_count": 1}, "MalformedBody", "takes no body"),
        ("POST", "/api/messages/9/requeue", None, "MessageNotFoundError", "message 9"),
        ("POST", "/api/messages/abc/ack", {"lease_token": "1"}, "InvalidValueError",
         "'abc' is not an id"),
        ("POST", "/api/messages/1/replay", None, "NotFinished", "message 1 is ready, not finished"),
        ("POST", "/api/messages", None, "InvalidValueError", "the body lacks topic"),
        ("POST", "/api/messages", {"topic": "orders"}, "InvalidValueError",
         "the body has neither of `payload`"),
        ("GET", "/api/messages?limit=1&limit=2", None, "MalformedQuery",
         "the parameter 'limit' is given more than once"),
        ("GET", "/managed-services/none", None, "ServiceNotFoundError", "service 'none' does not"),
        ("POST", "/managed-services", {"name": "far", "dsn": "host=a user=b port=99999"},
         "InvalidValueError", "the port is '99999'"),
        ("POST", "/managed-services", {"name": "Far", "dsn": "host=a user=b"},
         "InvalidValueError", "name must be 1 to 63 lowercase letters"),
        ("DELETE", "/managed-services/local", None, "InvalidValueError", "service 'local' is the"),
        ("GET", "/managed-services/local/tasks/x", None, "TaskNotFoundError", "task 'x' does not"),
        ("POST", "/api/messages", {"topic": "orders", "json": "\0"}, "PayloadNotStorableError",
         "the json cannot be stored: it holds the character NUL"),
        ("GET", "/api/messages?status=waiting", None, "InvalidValueError",
         "status must be deleted or expired or failed or pending or processing"),
        ("PUT", "/api/admin/delete-reaper/schedule", {"schedule": "x"}, "InvalidValueError",
         "schedule is not a cron rule"),
        ("POST", "/api/schedules", {"name": "a b", "topic": "orders", "cron": "@daily"},
         "InvalidValueError", "name must be 1 to 128 lowercase letters, digits, - _ ."),
        ("GET", "/api/schedules?cursor=%00", None, "InvalidValueError",
         "cursor must be `next` of the previous page"),
        ("POST", "/api/bulk-acts", {"act": "move", "state": "ready", "topics": ["orders"]},
         "InvalidValueError", "to_topic is null; allowed: the name of a topic"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do_in_the_words_of_the_call(
    http: httpx.Client, method: str, path: str, body: Any, code: str, says: str
) -> None:
    http.post("/api/messages", json={"topic": "orders", "json": 1, "key": "k"})
    problem = http.request(method, path, json=body).json()
    assert problem["code"] == code, problem
    assert says in problem["detail"], problem
    assert not FOREIGN.search(str(problem)), problem


LOCAL = "/managed-services/local"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CONTROL_PLANE = [
    ("POST", f"{LOCAL}/queues", {"name": "orders"}, "QueueExistsError", "DELETE /managed-"),
    ("POST", f"{LOCAL}/queues", {"name": "a", "lease_seconds": 3}, "MalformedBody", "visibility_"),
    ("POST", "/managed-services/no/queues", {"name": "a"}, "ServiceNotFoundError", "GET /managed-"),
    ("GET", f"{LOCAL}/queues/no", None, "QueueNotFoundError", "POST creates one"),
    ("DELETE", f"{LOCAL}/queues/no", None, "QueueNotFoundError", "lists the queues"),
    ("DELETE", f"{LOCAL}/queues/no?force=true", None, "QueueNotFoundError", "lists the queues"),
    ("POST", f"{LOCAL}/queues/no/retry", None, "QueueNotFoundError", "lists the queues"),
    ("POST", f"{LOCAL}/queues/orders/retry", None, "QueueNotFailedError", "Only a Failed queue"),
    ("POST", f"{LOCAL}/queues/no/stats", None, "QueueNotFoundError", "lists the queues"),
    ("POST", f"{LOCAL}/queues/no/messages", {"messages": [{"payload": {}}]}, "QueueNotFoundError",
     "lists the queues"),
    ("POST", f"{LOCAL}/queues/orders/messages", {"messages": [{"payload": {"a": "\0"}}]},
     "PayloadNotStorableError", "Remove it."),
    ("GET", f"{LOCAL}/queues/orders/messages?task_id={UNKNOWN}", None, "TaskNotFoundError",
     "lists them"),
    ("GET", f"{LOCAL}/tasks/{UNKNOWN}", None, "TaskNotFoundError", "lists them"),
    ("POST", f"{LOCAL}/tasks/{UNKNOWN}/cancel", None, "TaskNotFoundError", "lists them"),
    ("POST", f"{LOCAL}/tasks/{UNKNOWN}/retry", None, "TaskNotFoundError", "lists them"),
    ("POST", "/managed-services", {"name": "local", "dsn": "host=a"}, "ServiceExistsError",
     "PATCH /managed-services"),
    ("PATCH", LOCAL, {"password": "b"}, "InvalidValueError", "PENSTOCK_DSN"),
    ("PATCH", "/managed-services/no", {"password": "b"}, "ServiceNotFoundError", "GET /managed-"),
    ("DELETE", "/managed-services/no", None, "ServiceNotFoundError", "GET /managed-services"),
    ("POST", "/managed-services/no/check", None, "ServiceNotFoundError", "GET /managed-services"),
]  # fmt: skip
# What callers of the control plane cannot use.
ELSEWHERE = re.compile(r"select penstock|=>|create_queue|lease_seconds|msgspec|as bytes|`penstock ")


def test_errors_of_the_control_plane_say_what_its_callers_can_do(http: httpx.Client) -> None:
    http.post("/api/messages", json={"topic": "orders", "json": 1})
    for method, path, body, code, hint in CONTROL_PLANE:
        problem = http.request(method, path, json=body).json()
        assert problem["code"] == code, problem
        assert hint in problem["hint"], problem
        own = {name: text for name, text in problem.items() if name not in ("detail", "field")}
        assert not ELSEWHERE.search(str(own)), problem


@pytest.mark.parametrize("field", ["headers", "queue", "delay", "max_attempts"])
def test_an_unknown_field_is_named_as_the_caller_wrote_it(http: httpx.Client, field: str) -> None:
    problem = http.post("/api/messages", json={"topic": "orders", "json": 1, field: 1}).json()
    assert (problem["code"], problem["field"]) == ("MalformedBody", field)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/messages", {"topic": "orders", "messages": [{"json": "\0"}]}, "messages[0].json"),
        ("/managed-services", {"name": "far", "dsn": "host=a user=b", "password_file": "../x"},
         "password_file"),
        ("/managed-services", {"name": "far", "dsn": "host=a user=b password=x", "password": "y"},
         "password"),
        ("/managed-services/local/queues/orders/messages",
         {"messages": [{"payload": {}}, {"payload": {"a": "\0"}}]}, "messages[1].payload"),
    ],
)  # fmt: skip
def test_the_field_that_is_wrong_is_named(
    http: httpx.Client, path: str, body: Any, field: str
) -> None:
    http.post("/api/topic-configs", json={"topic": "orders"})
    answer = http.post(path, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_the_title_of_an_error_is_english(http: httpx.Client) -> None:
    id = http.post("/api/messages", json={"topic": "orders", "json": 1}).json()["id"]
    problem = http.post(f"/api/messages/{id}/requeue").json()
    assert (problem["title"], problem["fields"]["id"]) == ("Not a dead letter", id)


def test_an_absent_body_is_an_empty_one(http: httpx.Client) -> None:
    http.post("/api/topic-configs", json={"topic": "orders"})
    assert http.post("/api/topics/orders/redrive").json() == {"count": 0}
    assert http.post("/api/topics/orders/pause", json={}).status_code == 200


DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"topic": "orders", "json": [1, NaN]}', 400, "the body is not JSON: it contains NaN"),
        (b'{"topic": "orders", "key": -Infinity, "json": 1}', 400, "it contains -Infinity"),
        (b'\xef\xbb\xbf{"topic": "orders", "json": 1}', 400, "a byte order mark"),
        ('{"topic": "orders", "json": 1}'.encode("utf-16"), 400, "the body is not UTF-8"),
        (b'{"topic": "orders", "json": "\\ud800"}', 422, "a lone surrogate"),
        (b'{"topic": "\\ud800", "json": ' + DEEP + b"}", 400, "the body is nested too deeply"),
        (b'{"topic": "orders", "json": ["\\ud800", ' + DEEP + b"]}", 400, "nested too deeply"),
        (b'{"topic": "orders", "json": 1e200000}', 422, "value overflows numeric format"),
    ],
)
def test_a_body_that_is_not_json_is_refused_for_what_it_is(
    http: httpx.Client, body: bytes, status: int, says: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = http.post("/api/messages", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["detail"]


def test_a_number_with_too_many_digits_is_explained(http: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"topic": "orders", "json": 1e-20000}'
    problem = http.post("/api/messages", content=body, headers=headers).json()
    assert "Send this number as text." in problem["hint"]


def test_another_charset_is_refused(http: httpx.Client) -> None:
    text = '{"topic": "orders", "json": "é"}'
    for charset, status in (("iso-8859-1", 415), ("UTF-8", 201), ('"utf-8"', 201)):
        headers = {"Content-Type": f"application/json; charset={charset}"}
        answer = http.post("/api/messages", content=text.encode(), headers=headers)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("path", ["/api/stats/", "/api/messages/?limit=1", "/schedules/"])
def test_a_slash_at_the_end_redirects(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert (answer.status_code, answer.headers["location"]) == (
        308,
        path.replace("/?", "?").rstrip("/"),
    )


def test_a_redirect_stays_on_the_server(web: Any) -> None:
    host, _, port = web.url.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port))
    connection.request("GET", "//example.com/")
    assert connection.getresponse().status == 404
    connection.close()


ORIGIN = {"Origin": "https://shop.example.com"}
ASKS = {**ORIGIN, "Access-Control-Request-Method": "POST"}


def test_pages_of_other_origins_are_refused(http: httpx.Client) -> None:
    answer = http.get("/api/stats", headers=ORIGIN)
    assert "access-control-allow-origin" not in answer.headers
    assert http.options("/api/messages", headers=ASKS).status_code == 405


def test_pages_of_a_configured_origin_may_call(start_server: Any, make_key: Any) -> None:
    running = start_server(cors_origins=frozenset({"https://shop.example.com"}))
    headers = {"Authorization": f"Bearer {make_key('page', 'enqueue')}"}
    with httpx.Client(base_url=running.url, headers=headers) as client:
        asked = client.options("/api/messages", headers=ASKS)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == ORIGIN["Origin"]
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "Idempotency-Key" in asked.headers["access-control-allow-headers"]
        sent = client.post("/api/messages", json={"topic": "orders", "json": 1}, headers=ORIGIN)
        assert (sent.status_code, sent.headers["vary"]) == (201, "Origin")
        assert sent.headers["access-control-allow-origin"] == ORIGIN["Origin"]
        refused = client.get("/api/stats", headers=ORIGIN)
        assert refused.status_code == 403
        assert refused.headers["access-control-allow-origin"] == ORIGIN["Origin"]
        other = client.get("/api/stats", headers={"Origin": "https://other.example.com"})
        assert "access-control-allow-origin" not in other.headers
