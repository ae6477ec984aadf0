"""Small bodies that would be large in the database or in an answer are refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from penstock.commands.http_verbs import PROTOCOL, verbs

Db = psycopg.Connection[Any]
JSON = {"Content-Type": "application/json"}


def numbers(count: int) -> str:
    """A list of numbers with 131,001 digits each."""
    return "[" + ",".join(["1e131000"] * count) + "]"


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


BODIES = {
    "one message": lambda payload: f'{{"topic": "orders", "json": {payload}}}',
    "many messages": lambda payload: f'{{"topic": "orders", "messages": [{{"json": {payload}}}]}}',
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("count", [3, 1000, 100_000])
def test_numbers_with_large_exponents_are_too_large(
    make_key: Callable[..., str], open_client: Callable[..., httpx.Client], body: str, count: int
) -> None:
    producer = open_client(make_key("producer", "enqueue"))
    answer = producer.post("/api/messages", content=BODIES[body](numbers(count)), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "PayloadTooLargeError")
    assert answer.json()["fields"]["size"] > answer.json()["fields"]["limit"]


@pytest.mark.parametrize("count", [3, 1000])
def test_the_verbs_of_the_python_client_refuse_them_too(http: httpx.Client, count: int) -> None:
    arguments: dict[str, Any] = dict.fromkeys(verbs()["enqueue"].types)
    arguments |= {"queue": "orders", "payload": numbers(count), "priority": 0}
    arguments |= {"on_conflict": "replace", "unique_while": "waiting"}
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    answer = http.post(
        "/api/verbs",
        json={"calls": [{"verb": "enqueue", "arguments": arguments}]},
        headers={"Penstock-Protocol": PROTOCOL},
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "PayloadTooLargeError")


def test_the_control_plane_refuses_them_too(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    body = f'{{"messages": [{{"payload": {{"n": {numbers(1000)}}}}}]}}'
    path = "/managed-services/local/queues/orders/messages"
    answer = http.post(path, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "PayloadTooLargeError")


@pytest.mark.parametrize("body", BODIES)
def test_deep_nesting_is_refused_or_comes_back(http: httpx.Client, body: str) -> None:
    refused = http.post("/api/messages", content=BODIES[body](deep(100_000)), headers=JSON)
    assert refused.status_code in (400, 422)
    http.post("/api/messages", content=BODIES[body](deep(500)), headers=JSON).raise_for_status()
    answer = http.post("/api/messages/dequeue", json={"topic": "orders"})
    assert json.dumps(answer.json()["messages"][0]["json"]) == deep(500)


def test_a_compressed_body_counts_with_its_size(http: httpx.Client, db: Db) -> None:
    body = gzip.compress(b'{"topic": "orders", "json": "' + b"x" * 40_000_000 + b'"}')
    answer = http.post("/api/messages", content=body, headers={**JSON, "Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (413, "BodyTooLarge")
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)
