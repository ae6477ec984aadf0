"""What the engine can do is reachable over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg

from .test_control_plane import until


def _enqueue(http: httpx.Client, **message: Any) -> str:
    answer = http.post("/api/messages", json={"topic": "orders", "json": 1, **message})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _message(http: httpx.Client, id: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/api/messages/{id}").json()
    return found


def _seconds_until_visible(message: dict[str, Any]) -> float:
    visible, created = (datetime.fromisoformat(message[k]) for k in ("visible_at", "created_at"))
    return (visible - created).total_seconds()


def test_a_message_is_visible_at_a_time(http: httpx.Client) -> None:
    at = datetime(2040, 1, 31, 12, tzinfo=UTC)
    message = _message(http, _enqueue(http, visible_at=at.isoformat()))
    assert (message["state"], datetime.fromisoformat(message["visible_at"])) == ("scheduled", at)


def test_delays_are_as_long_and_as_fine_as_in_sql(http: httpx.Client) -> None:
    long = timedelta(days=3650).total_seconds()
    for seconds in (600.25, long):
        message = _message(http, _enqueue(http, delay_seconds=seconds))
        assert round(_seconds_until_visible(message), 2) == seconds


def test_a_delay_and_a_time_exclude_each_other(http: httpx.Client) -> None:
    body = {"topic": "orders", "json": 1, "delay_seconds": 1, "visible_at": "2040-01-01T00:00:00Z"}
    problem = http.post("/api/messages", json=body).json()
    assert (problem["status"], problem["field"]) == (422, "visible_at")


def test_many_messages_are_cancelled_by_id(http: httpx.Client) -> None:
    ids = [_enqueue(http) for _ in range(3)]
    answer = http.post("/api/messages/cancel", json={"ids": [*ids[:2], "999999"]})
    assert answer.json() == {"count": 2}
    assert http.get("/api/stats?topic=orders").json()["items"][0]["pending"] == 1


def test_messages_are_moved_and_prioritized_by_id(http: httpx.Client) -> None:
    http.post("/api/topic-configs", json={"topic": "slow"})
    id = _enqueue(http)
    body = {"ids": [id], "priority": 7}
    assert http.post("/api/messages/set-priority", json=body).json() == {"count": 1}
    assert _message(http, id)["priority"] == 7
    answer = http.post("/api/messages/move", json={"ids": [id], "topic": "slow"})
    assert answer.json() == {"count": 1}
    assert http.get("/api/stats?topic=slow").json()["items"][0]["pending"] == 1


def test_a_purge_ends_at_its_maximum(http: httpx.Client) -> None:
    for _ in range(3):
        _enqueue(http)
    answer = http.post("/api/topics/orders/purge", params={"max_count": 2})
    assert answer.json() == {"count": 2}


def test_dead_letters_are_grouped_by_their_error(http: httpx.Client) -> None:
    for error in ("no route", "no route", "no stock"):
        _enqueue(http)
        [message] = http.post("/api/messages/dequeue", json={"topic": "orders"}).json()["messages"]
        token = {"lease_token": message["lease_token"], "error": error}
        http.post(f"/api/messages/{message['id']}/reject", json=token)
    groups = http.get("/api/dead-letters/errors", params={"topic": "orders"}).json()["items"]
    assert {(each["error"], each["count"]) for each in groups} == {("no route", 2), ("no stock", 1)}
    assert all(isinstance(each["first_id"], str) for each in groups)


def test_a_list_without_a_status_has_every_status(http: httpx.Client) -> None:
    http.post("/api/topic-configs", json={"topic": "orders", "keep_history": 7})
    ids = [_enqueue(http) for _ in range(4)]
    [done] = http.post("/api/messages/dequeue", json={"topic": "orders"}).json()["messages"]
    http.post(f"/api/messages/{done['id']}/ack", json={"lease_token": done["lease_token"]})
    http.post("/api/messages/dequeue", json={"topic": "orders"})
    found, cursor = [], None
    while True:
        query = {"topic": "orders", "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = http.get("/api/messages", params=query).json()
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert [each["id"] for each in found] == ids
    assert [each["status"] for each in found] == ["deleted", "processing", "pending", "pending"]


def test_a_cron_rule_is_previewed(http: httpx.Client) -> None:
    query = {"cron": "0 3 * * *", "time_zone": "Europe/Berlin", "count": 2}
    times = http.get("/api/cron/next", params=query).json()["times"]
    first, second = (datetime.fromisoformat(each) for each in times)
    assert timedelta(hours=23) <= second - first <= timedelta(hours=25)


def test_upkeep_and_due_schedules_are_run(http: httpx.Client) -> None:
    assert http.post("/api/admin/schedules/run").json()["count"] == 0
    assert "done" in http.post("/api/admin/maintain").json()


def test_batches_are_shown_and_cancelled(http: httpx.Client, db: psycopg.Connection[Any]) -> None:
    http.post("/api/topic-configs", json={"topic": "orders"})
    [(id,)] = db.execute("select penstock.create_batch('nightly')")
    db.execute("select penstock.add_to_batch(%s, 'orders', array['1', '2']::jsonb[])", [id])
    assert http.get("/api/batches").json()["items"][0]["id"] == str(id)
    [(newer,)] = db.execute("select penstock.create_batch('weekly')")
    page = http.get("/api/batches?limit=1").json()
    assert (page["items"][0]["id"], page["next"]) == (str(newer), str(newer))
    page = http.get("/api/batches", params={"limit": 1, "cursor": page["next"]}).json()
    assert page["items"][0]["id"] == str(id)
    assert http.get(f"/api/batches/{id}").json()["pending"] == 2
    answer = http.post(f"/api/batches/{id}/cancel")
    assert answer.json() == {"cancelled": 2, "more": False}
    missing = http.get("/api/batches/999")
    assert (missing.status_code, missing.json()["fields"]) == (404, {"batch": "999"})


def test_one_request_cancels_a_batch_of_any_size(
    http: httpx.Client, db: psycopg.Connection[Any]
) -> None:
    http.post("/api/topic-configs", json={"topic": "orders"})
    [(id,)] = db.execute("select penstock.create_batch('large')")
    add = "select penstock.add_to_batch(%s, 'orders', array_fill('1'::jsonb, array[2500]))"
    db.execute(add, [id])
    answer = http.post(f"/api/batches/{id}/cancel")
    assert answer.json() == {"cancelled": 1000, "more": True}
    found = until(
        lambda: http.get(f"/api/batches/{id}").json(), lambda found: found["state"] == "finished"
    )
    assert (found["cancelled"], found["pending"]) == (2500, 0)


def test_a_task_has_progress(
    http: httpx.Client, make_key: Any, open_client: Any, db: psycopg.Connection[Any]
) -> None:
    id = http.post("/api/messages", json={"topic": "orders", "json": 1}).json()["id"]
    path = f"/api/messages/{id}/progress"
    missing = http.get(path)
    assert (missing.status_code, missing.json()["code"]) == (404, "ProgressNotFound")
    report = (
        "select penstock.report_progress(array[%s::bigint], array[1], array[%s::real], array[%s],"
        " '[[\"line\"]]')"
    )
    db.execute(report, [id, 0.25, "copying"])
    found = http.get(path).json()
    assert found.pop("updated_at").endswith("Z")
    assert found == {"id": id, "attempt": 1, "fraction": 0.25, "note": "copying", "log": ["line"]}
    reader = open_client(make_key("reader", "read:orders"))
    assert reader.get(path).json()["note"] == "copying"
    assert open_client(make_key("other", "read:emails")).get(path).status_code == 403
    assert http.get("/api/messages/999999/progress").status_code == 404


def test_a_task_has_a_result(http: httpx.Client, db: psycopg.Connection[Any]) -> None:
    http.post("/api/topic-configs", json={"topic": "orders", "keep_history": 7})
    _enqueue(http)
    [(id, token)] = db.execute("select id, token from penstock.claim('orders')")
    call = "select penstock.complete_many(%s, %s, array['{\"total\": 3}'::jsonb], array[60])"
    db.execute(call, [[id], [token]])
    found = http.get(f"/api/messages/{id}/result").json()
    assert (found["state"], found["result"]) == ("done", {"total": 3})


def test_the_result_of_a_task_without_history_is_for_readers_of_its_queue(
    http: httpx.Client,
    open_client: Callable[..., httpx.Client],
    make_key: Callable[..., str],
    db: psycopg.Connection[Any],
) -> None:
    for queue in ("orders", "emails"):
        http.post("/api/topic-configs", json={"topic": queue, "keep_history": 0})
        http.post("/api/messages", json={"topic": queue, "json": 1})
        [(id, token)] = db.execute("select id, token from penstock.claim(%s)", [queue])
        call = (
            "select penstock.complete_many_v2(%s, %s, array['7'::jsonb], array[60], queues => %s)"
        )
        assert db.execute(call, [[id], [token], [queue]]).fetchall() == [(id,)]
    assert http.get(f"/api/messages/{id}").status_code == 404
    found = http.get(f"/api/messages/{id}/result").json()
    assert (found["state"], found["result"]) == ("done", 7)
    reader = open_client(make_key("reader", "read:emails"))
    assert reader.get(f"/api/messages/{id}/result").json()["result"] == 7
    stranger = open_client(make_key("stranger", "read:orders"))
    assert stranger.get(f"/api/messages/{id}/result").status_code == 403
    assert http.get("/api/messages/999999/result").status_code == 404


def test_no_key_enqueues_into_internal_topics(http: httpx.Client) -> None:
    for path, body in (
        ("/api/messages", {"topic": "penstock.x", "json": 1}),
        ("/api/messages", {"messages": [{"topic": "penstock.tasks", "json": 1}]}),
        ("/api/topic-configs", {"topic": "penstock.x"}),
        ("/api/messages/move", {"ids": ["1"], "topic": "penstock.tasks"}),
    ):
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "InvalidQueueNameError"), path
    assert http.put("/api/topic-configs/penstock.x", json={}).status_code == 422
