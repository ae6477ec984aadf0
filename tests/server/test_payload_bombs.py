"""Small bodies that would be large in the database or in an answer are refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import psycopg
import pytest
from tests.server.test_push import Receiver
from tests.server.test_slow_readers import LIST, STREAM, not_reading

from penstock.commands.http_verbs import PROTOCOL, verbs

Db = psycopg.Connection[Any]
JSON = {"Content-Type": "application/json"}
SERVICE = "/managed-services/local/queues/orders"


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
    answer = http.post(f"{SERVICE}/messages", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "PayloadTooLargeError")


@pytest.mark.parametrize("body", BODIES)
def test_deep_nesting_is_refused_or_comes_back(http: httpx.Client, body: str) -> None:
    refused = http.post("/api/messages", content=BODIES[body](deep(100_000)), headers=JSON)
    assert refused.status_code in (400, 422)
    http.post("/api/messages", content=BODIES[body](deep(500)), headers=JSON).raise_for_status()
    answer = http.post("/api/messages/dequeue", json={"topic": "orders"})
    assert json.dumps(answer.json()["messages"][0]["json"]) == deep(500)


@pytest.mark.parametrize("levels", [120, 3000])
def test_a_deep_value_of_a_producer_breaks_no_list_and_no_page(
    http: httpx.Client, make_key: Callable[..., str], db: Db, levels: int
) -> None:
    db.execute("select penstock.create_queue('orders')")
    row = db.execute("select penstock.enqueue('orders', %s::jsonb)", [deep(levels)]).fetchone()
    assert row is not None
    id = row[0]
    call = "select penstock.create_schedule('s', 'orders', '@daily', %s::jsonb)"
    db.execute(call, [deep(levels)])
    for path in (f"/api/messages/{id}", "/api/messages?topic=orders", "/api/schedules/s"):
        assert deep(levels) in http.get(path).text.replace(" ", ""), path
    assert http.get("/api/schedules").status_code == 200
    http.post("/login", data={"key": make_key("ada", "admin")})
    for path in (f"/messages/{id}", "/messages?queue=orders", "/schedules", "/schedules/s/edit"):
        for each in (path, f"{path.replace('?', '.json?')}" if "?" in path else f"{path}.json"):
            assert http.get(each).status_code == 200, each


def test_deep_arguments_of_a_verb_are_refused(http: httpx.Client) -> None:
    arguments = dict.fromkeys(verbs()["enqueue"].types) | {"queue": "orders", "payload": "deep"}
    body = json.dumps({"calls": [{"verb": "enqueue", "arguments": arguments}]})
    for levels in (500, 900):
        answer = http.post(
            "/api/verbs",
            content=body.replace('"deep"', deep(levels)),
            headers={**JSON, "Penstock-Protocol": PROTOCOL},
        )
        assert (answer.status_code, answer.json()["field"]) == (422, "payload")


def test_a_compressed_body_counts_with_its_size(http: httpx.Client, db: Db) -> None:
    body = gzip.compress(b'{"topic": "orders", "json": "' + b"x" * 40_000_000 + b'"}')
    answer = http.post("/api/messages", content=body, headers={**JSON, "Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (413, "BodyTooLarge")
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


OBJECTS = ",".join(["{}"] * 300_000)
LISTS = f'{{"a": [{",".join(["[]"] * 300_000)}]}}'
MANY = {
    "messages": f'{{"topic": "orders", "messages": [{OBJECTS}]}}',
    "messages, twice": f'{{"topic": "orders", "messages": [{OBJECTS}], "messages": []}}',
    "metadata": f'{{"topic": "orders", "json": 1, "metadata": {LISTS}}}',
    "metadata of a message": '{"topic": "orders", "messages": [{"json": 1, "metadata": '
    f"{LISTS}}}]}}",
    "an unknown field": f'{{"topic": "orders", "json": 1, "more": {LISTS}}}',
}


@pytest.mark.parametrize("body", MANY)
def test_many_small_parts_are_refused_before_they_are_read(http: httpx.Client, body: str) -> None:
    answer = http.post("/api/messages", content=MANY[body], headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["code"] in ("InvalidValueError", "MalformedBody")


OPEN = {
    "a schedule": (
        "/api/schedules",
        '{"name": "s", "topic": "orders", "cron": "@daily", "json": %s}',
    ),
    "a verb": ("/api/verbs", '{"calls": [{"verb": "enqueue", "arguments": {"a": %s}}]}'),
    "verbs": ("/api/verbs", '{"calls": %s}'),
}


@pytest.mark.parametrize("body", OPEN)
@pytest.mark.parametrize("part", ["{}", '""', "1e300", '{"a":[[]],"b":"[\\",[\\\\"}'])
def test_many_values_are_refused_where_the_type_has_no_limit(
    http: httpx.Client, body: str, part: str
) -> None:
    path, text = OPEN[body]
    headers = {**JSON, "Penstock-Protocol": PROTOCOL}
    many = text % f"[{','.join([part] * 200_001)}]"
    answer = http.post(path, content=many, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (
        422, "the body has more than 200000 values",
    )  # fmt: skip


def test_a_long_string_is_one_value(http: httpx.Client) -> None:
    http.put("/api/topic-configs/orders", json={}).raise_for_status()
    text = '{"[,' * 100_000
    body = {"name": "s", "topic": "orders", "cron": "@daily", "json": [text, text]}
    assert http.post("/api/schedules", json=body).json()["code"] == "PayloadTooLargeError"


def test_too_many_messages_of_a_large_body_are_refused_by_name(http: httpx.Client) -> None:
    messages = [{"json": "x" * 200}] * 1001
    problem = http.post("/api/messages", json={"topic": "orders", "messages": messages}).json()
    assert problem["detail"] == "messages must be an array of 1 to 1000 items"
    assert problem["field"] == "messages"
    answer = http.post("/api/messages", json={"topic": "orders", "messages": messages[1:]})
    assert len(answer.json()["ids"]) == 1000


BODY, BODIES_TOGETHER, ANSWER = 4 * 2**20, 8 * 2**20, 2 * 2**20
# What the settings allow: the bodies twice, as received and as read, and the answers of the
# connections to the database, each as rows, as documents, as text and as a response. The rest is
# what Python and its allocator need for that.
# The answers that callers do not read come with them. A limit of a connection is 64 KiB.
UNREAD, UNREADING = 8 * 2**20, 100
# Push delivery holds messages as rows, as bodies and as what the endpoint has not read. Three tasks
# of a service run at once, each with its messages as a row, as values and as arguments.
PUSH = 4 * 2**20
TASKS = 3 * BODY
ALLOWED = (
    2 * BODIES_TOGETHER
    + 4 * 4 * ANSWER
    + UNREAD
    + UNREADING * 2**17
    + 3 * PUSH
    + 3 * TASKS
    + 64 * 2**20
)


def test_bombs_of_every_kind_at_once_stay_within_the_memory_of_the_settings(
    start_process: Callable[..., Any], make_key: Callable[..., str], db: Db
) -> None:
    process = start_process(
        PENSTOCK_HTTP_MAX_BODY_BYTES=str(BODY),
        PENSTOCK_HTTP_BODIES_BYTES=str(BODIES_TOGETHER),
        PENSTOCK_HTTP_ANSWER_BYTES=str(ANSWER),
        PENSTOCK_HTTP_ANSWERS_BYTES=str(UNREAD),
        PENSTOCK_HTTP_POOL="4",
        PENSTOCK_PUSH_BYTES=str(PUSH),
        PENSTOCK_PUSH_NETWORKS="127.0.0.0/8",
    )
    for queue in ("large", "orders", "pushed"):
        db.execute("select penstock.create_queue(%s)", [queue])
    for queue in ("large", "pushed"):
        db.execute(
            "select count(*) from penstock.enqueue_many(%s,"
            " array_fill(to_jsonb(repeat('x', 250000)), array[200]))",
            [queue],
        )
    task = json.dumps({"messages": [{"payload": {"n": "x" * 250_000}}] * 16})
    bomb = f'{{"messages": [{{"payload": {{"n": {numbers(1000)}}}}}]}}'
    small = ",".join(['{"json":1}'] * 1000)
    packed = gzip.compress(b'{"topic": "orders", "json": "' + b"x" * 40_000_000 + b'"}')
    bombs: list[tuple[str, bytes, str]] = [
        ("/api/messages", BODIES["one message"](numbers(1000)).encode(), "identity"),
        ("/api/messages", BODIES["many messages"](numbers(100_000)).encode(), "identity"),
        ("/api/messages", BODIES["one message"](deep(100_000)).encode(), "identity"),
        ("/api/messages", BODIES["one message"](deep(1_500_000)).encode(), "identity"),
        ("/api/messages", packed, "gzip"),
        ("/api/messages", f'{{"topic": "orders", "messages": [{small}]}}'.encode(), "identity"),
        ("/api/messages", b'{"topic": "orders", "messages": [' + b"{}," * 1_300_000, "identity"),
        ("/api/verbs", (OPEN["a verb"][1] % f"[{'{},' * 1_300_000}1]").encode(), "identity"),
        ("/api/verbs", (OPEN["verbs"][1] % f"[{'{},' * 1_300_000}1]").encode(), "identity"),
        ("/api/schedules", (OPEN["a schedule"][1] % numbers(150_000)).encode(), "identity"),
        (
            "/api/schedules",
            (OPEN["a schedule"][1] % f"[{'1e300,' * 650_000}1]").encode(),
            "identity",
        ),
        ("/api/messages/dequeue", b'{"topic": "large", "count": 1000}', "identity"),
        (f"{SERVICE}/messages", bomb.encode(), "identity"),
        (f"{SERVICE}/messages", task.encode(), "identity"),
    ]
    key = make_key("bomber", "admin")
    headers = {"Authorization": f"Bearer {key}"}
    with (
        httpx.Client(base_url=process.url, headers=headers, timeout=120) as client,
        ExitStack() as stack,
    ):
        client.get("/api/stats").raise_for_status()
        before = process.memory_bytes("VmHWM")
        receiver = Receiver(lambda _: None)  # it never answers
        stack.callback(receiver.stop)
        hook = {"name": "hook", "topic": "pushed", "url": receiver.url, "concurrency": 1000}
        client.post("/api/subscriptions", json=hook).raise_for_status()
        for line in (LIST, STREAM):
            stack.enter_context(not_reading(process.url, key, line, UNREADING // 2))

        def send(number: int) -> int:
            path, body, encoding = bombs[number % len(bombs)]
            sent = {**JSON, "Content-Encoding": encoding}
            status = client.post(path, content=body, headers=sent).status_code
            client.get("/api/messages", params={"topic": "large", "limit": 1000})
            client.get("/managed-services/local/tasks")
            return status

        with ThreadPoolExecutor(16) as callers:
            statuses = set(callers.map(send, range(8 * len(bombs))))
        assert statuses <= {200, 201, 202, 400, 413, 422, 503}
        assert receiver.requests, "messages were pushed meanwhile"
        grown = process.memory_bytes("VmHWM") - before
        print(f"the peak grew by {grown / 2**20:.0f} MiB, from {before / 2**20:.0f} MiB")
        assert grown < ALLOWED
