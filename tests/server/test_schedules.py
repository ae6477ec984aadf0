"""Schedules over HTTP, and what the OpenAPI document calls things."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from penstock.errors import InvalidValueError
from penstock.server.api.header_rules import check_arguments
from penstock.server.openapi import document


def test_a_schedule_is_made_changed_fired_and_removed(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    body = {
        "name": "nightly",
        "topic": "orders",
        "cron": "0 3 * * *",
        "time_zone": "Europe/Berlin",
        "json": {"kind": "nightly"},
        "metadata": {"by": "cron"},
        "max_retries": 2,
        "group": "night",
    }
    made = http.post("/api/schedules", json=body)
    assert made.status_code == 201, made.text
    assert made.json() | body == made.json()
    assert http.post("/api/schedules", json=body).status_code == 409
    path = "/api/schedules/nightly"
    assert http.get(path).json() == made.json()
    assert http.get("/api/schedules").json()["items"] == [made.json()]
    changed = http.patch(path, json={"cron": "@daily", "group": None, "max_retries": None}).json()
    assert (changed["cron"], changed["group"], changed["max_retries"]) == ("@daily", None, None)
    assert changed["json"] == body["json"]
    assert http.post(path + "/pause").json()["paused"] is True
    assert http.post(path + "/resume").json()["paused"] is False
    id = http.post(path + "/fire").json()["id"]
    [message] = http.post("/api/messages/dequeue", json={"topic": "orders"}).json()["messages"]
    assert (message["id"], message["json"]) == (id, body["json"])
    assert message["metadata"]["penstock-schedule"] == "nightly"
    assert http.delete(path).json()["name"] == "nightly"
    for method, rest in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/fire")]:
        assert http.request(method, path + rest).status_code == 404
    acts = http.get("/api/admin/activity").json()["items"]
    assert [each["act"] for each in acts if "schedule" in each["act"]] == [
        "drop schedule", "fire schedule", "resume schedule", "pause schedule", "set schedule",
        "create schedule",
    ]  # fmt: skip


def test_the_times_of_a_rule_begin_after_a_given_time(http: httpx.Client) -> None:
    query = {"cron": "0 3 * * *", "time_zone": "Europe/Berlin", "count": "2"}
    answer = http.get("/api/cron/next", params={**query, "after": "2030-03-30T12:00:00+02:00"})
    # The clocks are set forward in the night before the first of them.
    assert answer.json()["times"] == ["2030-03-31T01:00:00Z", "2030-04-01T01:00:00Z"]
    refused = http.get("/api/cron/next", params={**query, "after": "2030-03-30T12:00:00"})
    assert (refused.status_code, refused.json()["field"]) == (400, "after")


def test_what_is_wrong_with_a_schedule_is_said(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    good: dict[str, Any] = {"name": "s", "topic": "orders", "cron": "@daily"}
    for change, status in [
        ({"cron": "every now and then"}, 422),
        ({"time_zone": "Nowhere/Never"}, 422),
        ({"topic": "unknown"}, 404),
        ({"missed": "sometimes"}, 422),
        ({"queue": "orders"}, 400),
        ({"settings": {}}, 400),
    ]:
        answer = http.post("/api/schedules", json=good | change)
        assert answer.status_code == status, answer.text
    assert http.get("/api/schedules").json()["items"] == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ttl_seconds": 0.5}, "ttl_seconds must be a whole number from 1 to 315360000 or null"),
        ({"key": "a\0"}, "key is 'a\\x00'; allowed: text, without NUL"),
        ({"group": "a\0"}, "group is 'a\\x00'; allowed: text, without NUL"),
    ],
)
def test_the_option_of_a_schedule_that_is_wrong_is_named(
    http: httpx.Client, options: dict[str, Any], says: str
) -> None:
    http.put("/api/topic-configs/orders").raise_for_status()
    body = {"name": "nightly", "topic": "orders", "cron": "@daily", **options}
    problem = http.post("/api/schedules", json=body).json()
    assert problem["field"] in options
    assert says in problem["detail"], problem


def test_a_dequeue_says_nothing_of_what_it_does_not_know(http: httpx.Client) -> None:
    id = http.post("/api/messages", json={"topic": "orders", "json": 1}).json()["id"]
    [message] = http.post("/api/messages/dequeue", json={"topic": "orders"}).json()["messages"]
    assert not {"claimed_at", "first_claimed_at"} & set(message)
    shown = http.get(f"/api/messages/{id}").json()
    assert shown["claimed_at"] is not None
    assert shown["first_claimed_at"] == shown["claimed_at"]


def test_schemas_have_plain_names_of_their_own() -> None:
    found = document()["components"]["schemas"]
    assert [name for name in found if not re.fullmatch(r"[A-Z][A-Za-z]*", name)] == []
    titles = [schema.get("title") for schema in found.values()]
    assert titles == list(found)


def test_every_public_endpoint_is_documented_with_its_scope() -> None:
    paths = document()["paths"]
    assert {path for path in paths if path.startswith("/api/schedules")} == {
        "/api/schedules",
        "/api/schedules/{schedule}",
        "/api/schedules/{schedule}/pause",
        "/api/schedules/{schedule}/resume",
        "/api/schedules/{schedule}/fire",
    }
    assert paths["/api/schedules"]["post"]["x-scope"] == "operate"


def test_steps_of_a_chain_cannot_be_sent_over_http(http: httpx.Client) -> None:
    """A worker would enqueue them to queues that the key may not use."""
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    headers = {"penstock-chain": {"steps": []}}
    message = {"topic": "orders", "json": 1, "metadata": headers}
    schedule = {"name": "s", "topic": "orders", "cron": "@daily", "metadata": headers}
    for path, body in (
        ("/api/messages", message),
        ("/api/messages", {"messages": [message]}),
        ("/api/schedules", schedule),
    ):
        refused = http.post(path, json=body)
        assert refused.status_code == 422, refused.text
        assert "cannot be sent over HTTP" in refused.text
    escaped = '{"\\u0070enstock-chain": {}}'
    for arguments in ({"headers": [None, escaped]}, {"settings": f'{{"headers": {escaped}}}'}):
        with pytest.raises(InvalidValueError, match="cannot be sent over HTTP"):
            check_arguments(arguments)
