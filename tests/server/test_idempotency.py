"""Every POST can be sent again under its Idempotency-Key: it is done once and answered twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from tests.server.scenes import Scene, example_of

from penstock.server.app import endpoints

Db = psycopg.Connection[Any]
POSTS = [each.path for each in endpoints() if each.method == "POST"]


def post(http: httpx.Client, path: str, body: Any = None, key: str = "k1") -> httpx.Response:
    return http.post(path, json=body, headers={"Idempotency-Key": key})


def lease(http: httpx.Client, db: Db) -> tuple[str, dict[str, str]]:
    """A leased message: its path, and the proof of the lease."""
    db.execute("select penstock.create_queue('orders', exist_ok => true)")
    db.execute("select penstock.enqueue('orders', '1')")
    answer = http.post("/api/messages/dequeue", json={"topic": "orders"})
    [message] = answer.json()["messages"]
    return f"/api/messages/{message['id']}", {"lease_token": message["lease_token"]}


def test_every_post_is_done_once_under_its_key(http: httpx.Client, db: Db) -> None:
    different = {}
    for path in POSTS:
        scene = Scene(db, f"orders-{uuid4().hex[:8]}").everything()
        if path == "/api/subscriptions":  # a queue has at most one
            db.execute("select penstock.drop_subscription(%s)", [scene.subscription])
        example = example_of(f"POST {path}", scene)
        headers = {"Idempotency-Key": f"key-of-{path}", **example.headers}

        def send(example: Any = example, headers: Any = headers) -> httpx.Response:
            return http.post(example.path, json=example.json, params=example.query, headers=headers)

        first, again = send(), send()
        assert first.is_success, (path, first.text)
        if (first.status_code, first.content) != (again.status_code, again.content):
            different[path] = (first.text, again.text)
        assert "idempotency-replayed" not in first.headers, path
        assert again.headers["idempotency-replayed"] == "true", path
    assert not different


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "snooze"])
def test_a_settle_sent_again_says_what_it_said_first(http: httpx.Client, db: Db, verb: str) -> None:
    path, proof = lease(http, db)
    first = post(http, f"{path}/{verb}", proof)
    assert first.status_code == 200
    assert post(http, f"{path}/{verb}", proof).json() == first.json()
    assert post(http, f"{path}/{verb}", proof, "another").status_code == 409


def test_a_refused_act_leaves_its_key_free(http: httpx.Client, db: Db) -> None:
    path, proof = lease(http, db)
    assert post(http, f"{path}/ack", {"lease_token": "16"}).status_code == 409
    assert post(http, f"{path}/ack", proof).status_code == 200


def test_a_key_belongs_to_one_call_with_its_query(http: httpx.Client, db: Db) -> None:
    db.execute("select penstock.create_queue('orders')")
    assert post(http, "/api/topics/orders/purge").status_code == 200
    other = post(http, "/api/topics/orders/purge?include_processing=true")
    assert (other.status_code, other.json()["code"]) == (422, "IdempotencyKeyReused")


@pytest.mark.parametrize("wait", [0, 5])
def test_a_dequeue_sent_again_has_the_messages_of_the_first(
    http: httpx.Client, db: Db, wait: int
) -> None:
    lease(http, db)
    body = {"topic": "orders", "count": 5, "wait_seconds": wait}
    if wait:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(post, http, "/api/messages/dequeue", body)
            db.execute("select penstock.enqueue('orders', '2')")
            first = waiting.result()
    else:
        db.execute("select penstock.enqueue('orders', '2')")
        first = post(http, "/api/messages/dequeue", body)
    assert [each["json"] for each in first.json()["messages"]] == [2]
    db.execute("select penstock.enqueue('orders', '3')")
    assert post(http, "/api/messages/dequeue", body).json() == first.json()


def test_an_empty_dequeue_is_not_kept(http: httpx.Client, db: Db) -> None:
    body = {"topic": "orders"}
    assert post(http, "/api/messages/dequeue", body).json() == {"messages": []}
    db.execute("select penstock.create_queue('orders')")
    assert post(http, "/api/messages/dequeue", body).json() == {"messages": []}
    db.execute("select penstock.enqueue('orders', '1')")
    assert len(post(http, "/api/messages/dequeue", body).json()["messages"]) == 1


def test_settling_many_says_why_a_message_was_not_settled(http: httpx.Client, db: Db) -> None:
    leases = [lease(http, db) for _ in range(3)]
    bodies = [{"id": path.rpartition("/")[2], **proof} for path, proof in leases]
    http.post(f"{leases[0][0]}/ack", json=leases[0][1]).raise_for_status()
    http.post(f"{leases[1][0]}/snooze", json=leases[1][1]).raise_for_status()
    wanted = [*bodies, bodies[2] | {"action": "nack"}, bodies[2] | {"id": "999999"}]
    results = post(http, "/api/messages/settle", {"messages": wanted}).json()["results"]
    assert [each.get("reason") for each in results] == [
        "finished", "lease_lost", None, "repeated", "not_found",
    ]  # fmt: skip
    assert post(http, "/api/messages/settle", {"messages": wanted}).json()["results"] == results


def test_of_a_message_that_is_named_twice_the_first_counts(http: httpx.Client, db: Db) -> None:
    for action in ("ack", "nack"):
        path, proof = lease(http, db)
        right = {"id": path.rpartition("/")[2], "action": action, **proof}
        for wanted in ([right | {"lease_token": "16"}, right], [right, right]):
            results = http.post("/api/messages/settle", json={"messages": wanted}).json()["results"]
            settled = wanted[0] is right
            expected = [None if settled else "lease_lost", "repeated"]
            assert [each.get("reason") for each in results] == expected
            assert [each["settled"] for each in results] == [settled, False]


def test_no_secret_of_a_request_or_a_response_is_stored_in_the_clear(
    http: httpx.Client, db: Db
) -> None:
    key = post(http, "/api/keys", {"name": "shop", "scopes": ["read"]}).json()["key"]
    body = {"name": "far", "dsn": "host=127.0.0.1 port=1 user=ada", "password": "hunter2"}
    assert post(http, "/managed-services", body, "k2").status_code == 201
    rows = db.execute("select fingerprint, body from penstock.idempotent_answer").fetchall()
    assert len(rows) == 2
    assert not any(key.encode() in bytes(stored) for _, stored in rows)
    parts = (b"POST", b"/managed-services", httpx.Request("POST", "http://x", json=body).content)
    plain = hashlib.sha256(b"\0".join(parts)).digest()
    assert not any(bytes(fingerprint) == plain for fingerprint, _ in rows)


def test_a_key_for_one_topic_learns_nothing_about_messages_of_others(
    http: httpx.Client, db: Db, make_key: Callable[..., str], open_client: Any
) -> None:
    path, proof = lease(http, db)
    http.post(f"{path}/ack", json=proof).raise_for_status()
    other = open_client(make_key("other", "consume:mail"))
    body = {"messages": [{"id": path.rpartition("/")[2], **proof}]}
    [result] = other.post("/api/messages/settle", json=body).json()["results"]
    assert (result["settled"], result["reason"]) == (False, "not_found")


def test_erased_messages_are_erased_from_stored_answers_too(http: httpx.Client, db: Db) -> None:
    db.execute("select penstock.create_queue('orders', '{\"keep_history\": 60}')")
    for key, text in (("k1", "secret"), ("k2", "other")):
        [id] = http.post("/api/messages", json={"topic": "orders", "json": text}).json().values()
        post(http, "/api/messages/dequeue", {"topic": "orders"}, key)
        db.execute("select penstock.cancel(%s::bigint)", [id])
    post(http, "/api/messages", {"topic": "orders", "json": 1}, "k3")
    query = "select idempotency_key from penstock.idempotent_answer order by 1"
    assert db.execute(query).fetchall() == [("k1",), ("k2",), ("k3",)]
    db.execute(
        "select penstock.erase_history(array_agg(id), array_agg(enqueued_at))"
        " from penstock.history where payload = '\"secret\"'"
    )
    assert db.execute(query).fetchall() == [("k2",), ("k3",)]
