"""Messages over HTTP, from enqueue to their end."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import httpx
import psycopg
import pytest

Db = psycopg.Connection[Any]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def enqueue(http: httpx.Client, topic: str = "orders", **fields: Any) -> str:
    answer = http.post("/api/messages", json={"topic": topic, "json": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def claim(http: httpx.Client, topic: str = "orders", **fields: Any) -> list[dict[str, Any]]:
    answer = http.post("/api/messages/dequeue", json={"topic": topic, **fields})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def settle(http: httpx.Client, lease: dict[str, Any], verb: str, **fields: Any) -> httpx.Response:
    body = {"lease_token": lease["lease_token"], **fields}
    return http.post(f"/api/messages/{lease['id']}/{verb}", json=body)


def test_a_message_goes_from_enqueue_to_ack(http: httpx.Client) -> None:
    id = enqueue(http, json={"order": 1}, metadata={"tenant": "a"}, priority=3)
    [lease] = claim(http, visibility_timeout_seconds=60)
    assert lease["id"] == id
    assert (lease["json"], lease["metadata"]) == ({"order": 1}, {"tenant": "a"})
    assert (lease["status"], lease["retry_count"], lease["max_retries"]) == ("processing", 0, 4)
    assert claim(http) == []
    done = settle(http, lease, "ack")
    assert (done.status_code, done.json()["status"]) == (200, "deleted")
    shown = http.get(f"/api/messages/{id}").json()
    assert (shown["status"], shown["state"], shown["attempts"]) == ("deleted", "done", [])
    late = settle(http, lease, "ack")
    assert (late.status_code, late.json()["code"]) == (409, "LeaseLostError")


def test_bytes_come_back_as_they_were(http: httpx.Client) -> None:
    data = bytes(range(256))
    http.post("/api/messages", json={"topic": "raw", "payload": encoded(data)}).raise_for_status()
    [lease] = claim(http, "raw")
    assert base64.b64decode(lease["payload"]) == data
    assert "json" not in lease


JSON_VALUES = [
    None, True, 0, -1.5, 10**30, "", "a\"b\\c\n\u2028\U0001f600",
    "'; drop table penstock.queue; --", "<script>alert(1)</script>", [], {}, [[[]]],
    {"a": {"b": [1, None]}}, "\\u0000 as text",
]  # fmt: skip


@pytest.mark.parametrize("value", JSON_VALUES, ids=repr)
def test_a_json_value_comes_back_as_it_was(http: httpx.Client, value: Any) -> None:
    enqueue(http, json=value, metadata={"value": value}, key="k", group="g")
    [lease] = claim(http)
    assert (lease["json"], lease["metadata"]) == (value, {"value": value})
    assert http.get(f"/api/messages/{lease['id']}").json()["json"] == value


def test_a_batch_goes_in_whole_in_its_order(http: httpx.Client) -> None:
    messages = [{"json": n} for n in range(500)] + [{"payload": encoded(b"x"), "topic": "raw"}]
    answer = http.post("/api/messages", json={"topic": "orders", "messages": messages})
    assert answer.status_code == 201
    ids = answer.json()["ids"]
    assert len(ids) == len(set(ids)) == 501
    leases = claim(http, count=1000)
    assert [lease["id"] for lease in leases] == ids[:500]
    assert [lease["json"] for lease in leases] == list(range(500))
    assert claim(http, "raw")[0]["id"] == ids[500]


def test_a_batch_with_one_bad_message_leaves_nothing(http: httpx.Client, db: Db) -> None:
    http.put("/api/topic-configs/small", json={"max_payload_bytes": 10}).raise_for_status()
    messages = [{"json": 1, "topic": "orders"}, {"json": "x" * 100, "topic": "small"}]
    answer = http.post("/api/messages", json={"messages": messages})
    assert (answer.status_code, answer.json()["code"]) == (413, "PayloadTooLargeError")
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


def test_a_key_replaces_skips_or_conflicts(http: httpx.Client) -> None:
    first = enqueue(http, key="order-42", json=99)
    assert enqueue(http, key="order-42", json=100) == first
    assert enqueue(http, key="order-42", json=101, on_conflict="skip") == first
    body = {"topic": "orders", "key": "order-42", "json": 1, "on_conflict": "error"}
    assert http.post("/api/messages", json=body).status_code == 409
    [lease] = claim(http, count=10)
    assert lease["json"] == 100


def test_nack_retries_then_dead_letters_then_requeue(http: httpx.Client) -> None:
    id = enqueue(http, max_retries=1)
    for status in ("pending", "pending"):
        [lease] = claim(http)
        answer = settle(http, lease, "nack", error="smtp is down", delay_seconds=0)
        assert answer.json()["status"] == status
    assert claim(http) == []
    shown = http.get(f"/api/messages/{id}").json()
    assert (shown["topic"], shown["status"], shown["original_topic"]) == (
        "orders.dlq", "pending", "orders",
    )  # fmt: skip
    assert (shown["retry_count"], shown["max_retries"]) == (0, 0)
    assert (shown["last_error"], shown["dlq_moved_at"] is not None) == ("smtp is down", True)
    assert [a["error"] for a in shown["attempts"]] == ["smtp is down"] * len(shown["attempts"])
    back = http.post(f"/api/messages/{id}/requeue")
    assert (back.status_code, back.json()["status"]) == (200, "pending")
    [lease] = claim(http)
    assert (lease["id"], lease["retry_count"]) == (id, 0)
    assert http.post(f"/api/messages/{id}/requeue").status_code == 409


def test_without_a_dlq_an_exhausted_message_has_failed(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={"dlq_enabled": False}).raise_for_status()
    id = enqueue(http, max_retries=0)
    [lease] = claim(http)
    assert settle(http, lease, "nack", error="no").json()["status"] == "failed"
    assert http.get("/api/messages?status=failed").json()["items"][0]["id"] == id


def test_extend_snooze_and_reject(http: httpx.Client) -> None:
    enqueue(http)
    [lease] = claim(http, visibility_timeout_seconds=60)
    longer = settle(http, lease, "extend", visibility_timeout_seconds=600).json()
    assert longer["visibility_timeout"] > lease["visibility_timeout"]
    assert settle(http, lease, "snooze", delay_seconds=0).json()["status"] == "pending"
    [lease] = claim(http)
    assert lease["retry_count"] == 0
    assert settle(http, lease, "reject", error="never").json()["state"] == "dead"
    assert claim(http, "orders.dlq")[0]["original_topic"] == "orders"


def test_messages_are_listed_by_filters_page_by_page(http: httpx.Client) -> None:
    ids = [enqueue(http, json=n) for n in range(5)]
    claim(http, count=2)
    pages, cursor = [], ""
    while cursor is not None:
        page = http.get(f"/api/messages?topic=orders&limit=2{cursor}").json()
        pages.append([item["id"] for item in page["items"]])
        cursor = page["next"] and f"&cursor={page['next']}"
    assert [id for page in pages for id in page] == ids
    by_status = http.get("/api/messages?status=processing").json()["items"]
    assert [item["id"] for item in by_status] == ids[:2]
    enqueue(http, key="k", topic="other")
    assert len(http.get("/api/messages?key=k").json()["items"]) == 1
    assert http.get("/api/messages?older_than_seconds=3600").json()["items"] == []
    assert len(http.get("/api/messages?younger_than_seconds=3600").json()["items"]) == 6


def test_replay_and_cancel(http: httpx.Client) -> None:
    enqueue(http, json="again")
    [lease] = claim(http)
    settle(http, lease, "ack").raise_for_status()
    copy = http.post(f"/api/messages/{lease['id']}/replay", json={})
    assert copy.status_code == 201
    gone = http.post(f"/api/messages/{copy.json()['id']}/cancel")
    assert gone.json()["state"] == "cancelled"
    again = http.post(f"/api/messages/{copy.json()['id']}/cancel")
    assert again.status_code == 404
    assert "is cancelled, and only unfinished messages can be cancelled" in again.json()["detail"]


def test_a_finished_message_is_the_same_alone_and_in_a_list(http: httpx.Client) -> None:
    id = enqueue(http, json=1, max_retries=7)
    settle(http, claim(http)[0], "ack").raise_for_status()
    [listed] = http.get("/api/messages?topic=orders").json()["items"]
    alone = http.get(f"/api/messages/{id}").json()
    assert (alone["max_retries"], alone["max_attempts"]) == (7, 8)
    assert {name: alone[name] for name in listed} == listed


def test_a_topic_is_made_on_first_use_unless_the_caller_is_strict(http: httpx.Client) -> None:
    strict = {"Prefer": "handling=strict"}
    new = {"topic": "new", "json": 1}
    assert http.post("/api/messages", json=new, headers=strict).status_code == 404
    empty = http.post("/api/messages/dequeue", json={"topic": "new"}, headers=strict)
    assert empty.status_code == 404
    assert claim(http, "new") == []
    assert http.post("/api/messages", json=new).status_code == 201
    assert claim(http, "new") != []


BAD = [
    ({"json": 1}, 422, "topic"),
    ({"topic": "orders"}, 422, "payload"),
    ({"topic": "orders", "json": 1, "payload": "eA=="}, 422, "payload"),
    ({"topic": "orders", "payload": "no base64"}, 400, "payload"),
    ({"topic": "Orders", "json": 1}, 422, "topic"),
    ({"topic": "orders.dlq", "json": 1}, 422, None),
    ({"topic": "orders", "json": 1, "delay_seconds": 3_110_400_001}, 422, "delay_seconds"),
    ({"topic": "orders", "json": 1, "delay_seconds": -1}, 422, "delay_seconds"),
    ({"topic": "orders", "json": 1, "delay_seconds": "1"}, 400, "delay_seconds"),
    ({"topic": "orders", "json": 1, "priority": 10}, 422, "priority"),
    ({"topic": "orders", "json": 1, "max_retries": 100}, 422, "max_retries"),
    ({"topic": "orders", "json": 1, "metadata": []}, 400, "metadata"),
    ({"topic": "orders", "json": 1, "metadata": {"x": "y" * 20000}}, 422, "metadata"),
    ({"topic": "orders", "json": 1, "key": ""}, 422, "key"),
    ({"topic": "orders", "json": 1, "colour": "red"}, 400, "colour"),
    ({"topic": "orders", "messages": []}, 422, "messages"),
    ({"topic": "orders", "messages": [{"json": 1}] * 1001}, 422, "messages"),
    ({"topic": "orders", "messages": [{"json": 1}, {}]}, 422, "messages[1].payload"),
    ({"topic": "orders", "messages": [{"json": 1}], "key": "all"}, 422, "messages"),
    ({"topic": "orders", "messages": [{"json": 1}], "priority": 1}, 422, "messages"),
    ({"topic": "orders", "json": 1, "max_retries": 1.5}, 400, "max_retries"),
    ({"topic": "orders", "json": 1, "priority": 10.0}, 422, "priority"),
    ({"topic": "orders", "json": 1, "on_conflict": "explode"}, 422, "on_conflict"),
    ([], 400, None),
]


@pytest.mark.parametrize(("body", "status", "field"), BAD, ids=lambda value: repr(value)[:60])
def test_a_bad_message_is_refused_and_says_why(
    http: httpx.Client, db: Db, body: Any, status: int, field: str | None
) -> None:
    answer = http.post("/api/messages", json=body)
    problem = answer.json()
    assert (answer.status_code, problem.get("field")) == (status, field), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


def test_a_whole_number_may_be_written_with_a_point(http: httpx.Client) -> None:
    messages = [{"json": 1.5, "delay_seconds": 60.0}, {"json": [2.0], "priority": -1.0}]
    ids = http.post("/api/messages", json={"topic": "orders", "messages": messages}).json()["ids"]
    first, second = (http.get(f"/api/messages/{id}").json() for id in ids)
    assert (first["json"], first["state"]) == (1.5, "scheduled")
    assert (second["json"], second["priority"]) == ([2.0], -1)
    found = http.post("/api/messages/dequeue", json={"topic": "orders", "count": 10.0})
    assert [each["id"] for each in found.json()["messages"]] == ids[1:]


def test_the_word_null_is_no_number(http: httpx.Client) -> None:
    answer = http.get("/api/messages", params={"younger_than_seconds": "null"})
    assert (answer.status_code, answer.json()["field"]) == (400, "younger_than_seconds")
    assert http.get("/api/messages", params={"key": "null"}).status_code == 200


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b'{"topic": "orders", "json": 1} x', 400),
        (b'{"topic": "orders", "json": "\xff"}', 400),
        (b'{"topic": "orders", "json": "\\u0000"}', 422),
        (b'{"topic": "orders", "json": "\\ud800"}', 422),
        (b'{"topic": "orders", "json": {"a\\u0000": 1}}', 422),
        (b'{"topic": "orders", "json": 1e400000}', 422),
        (b'{"topic": "orders", "json": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (b'{"topic": "orders", "json": ' + b"[" * 900 + b"]" * 900 + b"}", 201),
        (b'{"topic": "orders", "metadata": {"a": "\\u0000"}, "json": 1}', 422),
        (b'{"topic": "orders", "key": "\\u0000", "json": 1}', 422),
        (b'{"topic": "orders\\n", "json": 1}', 422),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_cannot_be_stored_is_refused(http: httpx.Client, text: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = http.post("/api/messages", content=text, headers=headers)
    assert answer.status_code == status, answer.text


def test_a_body_may_come_packed_and_leave_packed(http: httpx.Client) -> None:
    body = gzip.compress(json.dumps({"topic": "orders", "json": "x" * 5000}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert http.post("/api/messages", content=body, headers=headers).status_code == 201
    answer = http.post("/api/messages/dequeue", json={"topic": "orders"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["messages"][0]["json"] == "x" * 5000
    path = f"/api/messages/{answer.json()['messages'][0]['id']}"
    for refused in ("identity", "gzip;q=0", "br, gzip; q=0.0, *"):
        plain = http.get(path, headers={"Accept-Encoding": refused})
        assert "content-encoding" not in plain.headers
    bad = http.post("/api/messages", content=b"no gzip", headers=headers)
    assert bad.status_code == 400
    other = {**headers, "Content-Encoding": "br"}
    assert http.post("/api/messages", content=b"{}", headers=other).status_code == 415


def test_another_content_type_is_refused(http: httpx.Client) -> None:
    answer = http.post("/api/messages", data={"topic": "orders"})
    assert answer.status_code == 415


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "reject", "snooze"])
@pytest.mark.parametrize("id", ["1", "0", "999999999999999999"])
def test_the_lease_of_no_message_is_lost(http: httpx.Client, verb: str, id: str) -> None:
    answer = http.post(f"/api/messages/{id}/{verb}", json={"lease_token": "1"})
    assert answer.status_code == 409


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "reject", "snooze"])
@pytest.mark.parametrize("id", ["abc", "9" * 30, "-1", "%00"])
def test_what_is_no_id_is_refused(http: httpx.Client, verb: str, id: str) -> None:
    answer = http.post(f"/api/messages/{id}/{verb}", json={"lease_token": "1"})
    assert (answer.status_code, answer.json()["field"]) == (422, "id")


def test_a_request_id_comes_back(http: httpx.Client) -> None:
    given = http.get("/api/stats", headers={"X-Request-Id": "abc.1-2"})
    assert given.headers["x-request-id"] == "abc.1-2"
    strange = http.get("/api/stats", headers={"X-Request-Id": "a b"})
    assert strange.headers["x-request-id"] != "a b"
    assert http.get("/nothing").json()["request_id"]


def test_a_full_topic_says_when_to_come_back(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={"max_depth": 1}).raise_for_status()
    enqueue(http)
    full = http.post("/api/messages", json={"topic": "orders", "json": 2})
    assert (full.status_code, full.headers["retry-after"]) == (429, "1")


def test_the_same_queue_in_every_plane(http: httpx.Client, db: Db, dsn: str) -> None:
    db.execute("select penstock.create_queue('by-sql', '{\"lease_seconds\": 7}')")
    assert http.get("/api/topic-configs/by-sql").json()["visibility_timeout_seconds"] == 7
    http.put("/api/topic-configs/by-http", json={"max_retries": 2}).raise_for_status()
    row = db.execute("select max_attempts from penstock.queues where name = 'by-http'").fetchone()
    assert row == (3,)
    db.execute("select penstock.enqueue('by-http', '{\"a\": 1}')")
    assert claim(http, "by-http")[0]["json"] == {"a": 1}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/messages", {"topic": "penstock.x", "json": 1}),
        ("/api/messages", {"messages": [{"topic": "penstock.x", "json": 1}]}),
        ("/api/topic-configs", {"topic": "penstock.x"}),
    ],
)
def test_no_key_may_enqueue_into_an_internal_topic(
    http: httpx.Client, db: Db, path: str, body: Any
) -> None:
    answer = http.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "InvalidQueueNameError")
    made = db.execute("select count(*) from penstock.queue where name = 'penstock.x'")
    assert made.fetchone() == (0,)
