"""Idempotency keys, settling many, reapers, activity, settings."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from penstock.errors import ConfigurationError
from penstock.server.settings import ServerSettings

Db = psycopg.Connection[Any]
COUNT = "select count(*) from penstock.messages"


def keyed(http: httpx.Client, key: str, body: Any) -> httpx.Response:
    return http.post("/api/messages", json=body, headers={"Idempotency-Key": key})


def test_an_enqueue_sent_again_is_done_once(http: httpx.Client, db: Db) -> None:
    body = {"topic": "orders", "json": 1}
    first, again = keyed(http, "k1", body), keyed(http, "k1", body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (
        None, "true",
    )  # fmt: skip
    assert db.execute(COUNT).fetchone() == (1,)
    other = keyed(http, "k1", {"topic": "orders", "json": 2})
    assert (other.status_code, other.json()["code"]) == (422, "IdempotencyKeyReused")
    assert keyed(http, "k2", body).json() != first.json()
    assert keyed(http, "a b", body).status_code == 400


def test_ten_at_once_with_one_key_enqueue_once(http: httpx.Client, db: Db) -> None:
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    body = {"topic": "orders", "messages": [{"json": n} for n in range(10)]}
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: keyed(http, "k", body), range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({tuple(answer.json()["ids"]) for answer in answers}) == 1
    assert db.execute(COUNT).fetchone() == (10,)


def test_a_refused_call_may_be_mended_under_its_key(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={"max_depth": 1}).raise_for_status()
    keyed(http, "a", {"topic": "orders", "json": 1}).raise_for_status()
    assert keyed(http, "b", {"topic": "orders", "json": 1}).status_code == 429
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    assert keyed(http, "b", {"topic": "orders", "json": 1}).status_code == 201


def test_keys_of_two_callers_do_not_meet(http: httpx.Client, open_client: Any, make_key: Any):
    other = open_client(make_key("other", "enqueue"))
    body = {"topic": "orders", "json": 1}
    assert keyed(http, "k", body).json() != keyed(other, "k", body).json()


def test_a_task_asked_for_twice_under_one_key_is_one(http: httpx.Client, db: Db) -> None:
    db.execute("select penstock.create_queue('orders')")
    path = "/managed-services/local/queues/orders/messages"
    body = {"messages": [{"payload": {"n": 1}}]}
    headers = {"Idempotency-Key": "k"}
    tasks = [http.post(path, json=body, headers=headers).json() for _ in range(2)]
    assert tasks[0] == tasks[1]


def test_many_leases_are_settled_in_one_call(http: httpx.Client, db: Db) -> None:
    http.put("/api/topic-configs/orders", json={"max_retries": 0}).raise_for_status()
    messages = [{"json": n} for n in range(6)]
    http.post("/api/messages", json={"topic": "orders", "messages": messages})
    leases = http.post("/api/messages/dequeue", json={"topic": "orders", "count": 10}).json()[
        "messages"
    ]
    actions = ["ack", "nack", "reject", "snooze", "extend", "ack"]
    body = [
        {"id": lease["id"], "lease_token": lease["lease_token"], "action": action}
        for lease, action in zip(leases, actions, strict=True)
    ]
    body[-1]["lease_token"] = "1"
    results = http.post("/api/messages/settle", json={"messages": body}).json()["results"]
    assert [result["id"] for result in results] == [lease["id"] for lease in leases]
    assert [result["settled"] for result in results] == [True] * 5 + [False]
    assert [result.get("status") for result in results] == [
        "deleted", "pending", "pending", "pending", "processing", None,
    ]  # fmt: skip
    rows = db.execute("select state, count(*) from penstock.messages group by 1 order by 1")
    assert dict(rows.fetchall()) == {"dead": 2, "leased": 2, "ready": 1}


def test_the_reapers_expire_and_delete(
    open_client: Any, make_key: Any, start_server: Any, db: Db
) -> None:
    # Without upkeep: it would come before the reapers, now and then.
    http = open_client(make_key("admin", "admin"), start_server(upkeep="off"))
    for _ in range(3):
        http.post("/api/messages", json={"topic": "orders", "json": 1, "ttl_seconds": 3600})
    for slot in range(9):
        db.execute(f"update penstock.ready_{slot} set expires_at = now() - interval '1 second'")
    assert http.post("/api/admin/expiry-reaper/run").json() == {"expired": 3}
    assert len(http.get("/api/messages?status=expired").json()["items"]) == 3
    assert http.post("/api/admin/delete-reaper/run").json() == {"deleted": 3}
    assert http.get("/api/messages?status=expired").json()["items"] == []
    assert http.post("/api/admin/delete-reaper/run").json() == {"deleted": 0}


def test_the_delete_reaper_runs_by_its_schedule_on_one_server(
    http: httpx.Client, db: Db, web: Any, start_server: Any
) -> None:
    path = "/api/admin/delete-reaper/schedule"
    assert http.get(path).json()["schedule"] == ""
    bad = http.put(path, json={"schedule": "every day"})
    assert (bad.status_code, bad.json()["field"]) == (422, "schedule")
    assert http.put(path, json={"schedule": "0 3 * * *"}).json()["schedule"] == "0 3 * * *"
    shown = http.put(path, json={"schedule": "@hourly"}).json()
    assert (shown["schedule"], shown["next_run_at"] is not None) == ("@hourly", True)
    other = start_server()
    http.post("/api/messages", json={"topic": "orders", "json": 1, "ttl_seconds": 3600})
    for slot in range(9):
        db.execute(f"update penstock.ready_{slot} set expires_at = now() - interval '1 second'")
    http.post("/api/admin/expiry-reaper/run").raise_for_status()
    db.execute("update penstock.schedule set next_fire_at = now() - interval '1 second'")
    for running in (web, other):
        loop = running.server.context.runner._loop.get_loop()
        asyncio.run_coroutine_threadsafe(running.server.context.background.run_once(), loop).result(
            30
        )
    while http.get("/api/messages?status=expired").json()["items"]:
        pass
    assert http.get(path).json()["last_run_at"] is not None
    assert http.put(path, json={"schedule": ""}).json()["schedule"] == ""
    assert http.put(path, json={"schedule": ""}).status_code == 200


def test_every_act_of_an_operator_is_on_record(
    open_client: Any, make_key: Any, http: httpx.Client
) -> None:
    ada = open_client(make_key("ada", "operate"))
    ada.put("/api/topic-configs/orders", json={"max_retries": 1}).raise_for_status()
    ada.post("/api/topics/orders/pause", headers={"X-Request-Id": "r1"}).raise_for_status()
    ada.post("/api/topics/orders/resume").raise_for_status()
    ada.post("/api/topics/orders/purge").raise_for_status()
    ada.delete("/api/topics/orders").raise_for_status()
    assert ada.post("/api/topics/orders/pause").status_code == 404
    items = http.get("/api/admin/activity", params={"actor": "ada"}).json()["items"]
    assert [item["act"] for item in items] == [
        "drop queue", "purge", "resume", "pause", "set queue",
    ]  # fmt: skip
    assert (items[3]["request_id"], items[3]["target"]) == ("r1", "orders")
    assert items[4]["details"]["settings"]["max_attempts"] == 2
    page = http.get("/api/admin/activity", params={"limit": 2}).json()
    rest = http.get("/api/admin/activity", params={"cursor": page["next"]}).json()
    assert [item["act"] for item in rest["items"]] == ["resume", "pause", "set queue"]


def test_settings_come_from_the_environment_and_are_checked() -> None:
    found = ServerSettings.from_environment({"PENSTOCK_HTTP_PORT": "99"}, host="0.0.0.0")
    assert (found.port, found.host, found.is_loopback) == (99, "0.0.0.0", False)
    assert ServerSettings(host="::1").is_loopback
    for name, value in (("PORT", "x"), ("PORT", "70000"), ("ACCESS_LOG", "yes"), ("POOL", "0")):
        with pytest.raises(ConfigurationError, match=name):
            ServerSettings.from_environment({f"PENSTOCK_HTTP_{name}": value})


def test_the_openapi_document_and_its_page_are_served(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "/managed-services/{service}/queues/{queue}/messages" in document["paths"]
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in document["paths"]:
        assert path in page.text
    assert "http://" not in page.text.replace("http://localhost", "")
    assert "https://" not in page.text
