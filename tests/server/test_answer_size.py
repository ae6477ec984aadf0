"""An answer has a size at which it stops: fewer messages are handed out, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from penstock.commands.http_verbs import PROTOCOL, verbs
from penstock.http import Client

Db = psycopg.Connection[Any]
BUDGET = 1_000_000
MANY = {"topic": "orders", "count": 1000}


@pytest.fixture
def web(start_server: Callable[..., Any]) -> Any:
    return start_server(answer_bytes=BUDGET)


def fill(db: Db, count: int, size: int, queue: str = "orders") -> None:
    db.execute("select penstock.create_queue(%s, exist_ok => true)", (queue,))
    db.execute(
        "select count(*) from penstock.enqueue_many(%s, array_fill(to_jsonb(repeat('x', %s)),"
        " array[%s]))",
        (queue, size, count),
    )


@pytest.mark.parametrize("wait", [0, 5])
@pytest.mark.parametrize("size", [100_000, 400])
def test_a_dequeue_hands_out_what_fits_and_leaves_the_rest(
    http: httpx.Client, db: Db, size: int, wait: int
) -> None:
    count = min(30, 3_000_000 // size) if size > 1000 else 2500
    fill(db, count, size)
    seen: list[str] = []
    while True:
        answer = http.post("/api/messages/dequeue", json={**MANY, "wait_seconds": wait})
        assert len(answer.content) < BUDGET * 1.5
        messages = answer.json()["messages"]
        seen += [each["id"] for each in messages]
        assert {each["attempt"] for each in messages} == {1}
        if len(seen) == count:
            break
    assert seen == sorted(seen, key=int), "in the order of the queue, with nothing left out"


def test_messages_that_did_not_fit_were_not_claimed(http: httpx.Client, db: Db) -> None:
    fill(db, 30, 100_000)
    taken = len(http.post("/api/messages/dequeue", json=MANY).json()["messages"])
    assert 1 < taken < 15
    states = db.execute("select state, attempt, count(*) from penstock.messages group by 1, 2")
    assert sorted(states) == [("leased", 1, taken), ("ready", 0, 30 - taken)]


def test_a_message_larger_than_an_answer_is_handed_out_alone(http: httpx.Client, db: Db) -> None:
    http.put("/api/topic-configs/orders", json={"max_payload_bytes": 2_000_000})
    fill(db, 3, 1_500_000)
    for _ in range(3):
        [message] = http.post("/api/messages/dequeue", json=MANY).json()["messages"]
        assert len(message["json"]) == 1_500_000


def test_large_answers_to_others_leave_no_caller_empty_handed(http: httpx.Client, db: Db) -> None:
    fill(db, 60, 250_000)

    def dequeue(_: int) -> int:
        body = {"topic": "orders", "count": 100}
        return len(http.post("/api/messages/dequeue", json=body).json()["messages"])

    with ThreadPoolExecutor(8) as callers:
        counts = list(callers.map(dequeue, range(8)))
    assert all(counts)


def test_a_list_ends_where_it_is_full_and_goes_on_at_its_cursor(http: httpx.Client, db: Db) -> None:
    fill(db, 35, 100_000)
    ids: list[str] = []
    query: dict[str, Any] = {"topic": "orders", "limit": 30}
    while True:
        answer = http.get("/api/messages", params=query)
        assert len(answer.content) < BUDGET * 1.5
        page = answer.json()
        ids += [each["id"] for each in page["items"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert len(ids) == len(set(ids)) == 35


def test_the_python_client_gets_fewer_messages_too(
    web: Any, db: Db, make_key: Callable[..., str]
) -> None:
    fill(db, 30, 100_000)
    with Client(web.url, make_key("worker", "consume")) as client:
        assert 1 < len(client.claim("orders", 30)) < 15


SCHEDULES = 25


@pytest.fixture
def schedules(db: Db) -> list[str]:
    """The names of schedules with large payloads, in two queues by turns."""
    db.execute("select penstock.create_queue('orders'), penstock.create_queue('others')")
    names = [f"s{number:02}" for number in range(SCHEDULES)]
    db.execute(
        "select penstock.create_schedule(name, queue, '@daily', to_jsonb(repeat('x', 100000)))"
        " from unnest(%s::text[]) with ordinality n (name, place),"
        " lateral (select case when place %% 2 = 0 then 'orders' else 'others' end) q (queue)",
        [names],
    )
    return names


@pytest.mark.parametrize("limit", [3, 1000])
def test_a_list_of_schedules_ends_where_it_is_full_and_continues(
    http: httpx.Client, schedules: list[str], limit: int
) -> None:
    names: list[str] = []
    query: dict[str, Any] = {"limit": limit}
    while True:
        answer = http.get("/api/schedules", params=query)
        assert len(answer.content) < BUDGET * 1.5
        page = answer.json()
        assert 1 <= len(page["items"]) <= limit
        names += [each["name"] for each in page["items"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert names == schedules


@pytest.mark.parametrize("queue", ["*", "orders"])
def test_the_python_client_reads_all_schedules_in_bounded_answers(
    web: Any, http: httpx.Client, schedules: list[str], make_key: Callable[..., str], queue: str
) -> None:
    with Client(web.url, make_key("reader", f"read:{queue}")) as client:
        found = client.schedules()
    assert [each.name for each in found] == (schedules if queue == "*" else schedules[1::2])
    assert {len(each.payload) for each in found} == {100_000}
    arguments = dict.fromkeys(verbs()["schedule_page"].types) | {"max_bytes": 10**9}
    answer = call_verb(http, "schedule_page", arguments)
    assert answer.status_code == 200
    assert len(answer.content) < BUDGET * 1.5, "even if the caller asks for more"


def call_verb(http: httpx.Client, verb: str, arguments: dict[str, Any]) -> httpx.Response:
    return http.post(
        "/api/verbs",
        json={"calls": [{"verb": verb, "arguments": arguments}]},
        headers={"Penstock-Protocol": PROTOCOL},
    )


def test_an_older_client_lists_schedules_in_one_answer(
    http: httpx.Client, db: Db, schedules: list[str]
) -> None:
    refused = call_verb(http, "schedules", {"name": None})
    assert (refused.status_code, refused.json()["code"]) == (400, "OtherProtocol")
    one = call_verb(http, "schedules", {"name": schedules[3]})
    assert [row[0] for row in one.json()["answers"][0]["rows"]] == schedules[3:4]
    db.execute("select penstock.drop_schedule(name) from unnest(%s::text[]) name", [schedules[5:]])
    rows = call_verb(http, "schedules", {"name": None}).json()["answers"][0]["rows"]
    assert [row[0] for row in rows] == schedules[:5]
    assert {len(row) for row in rows} == {20}, "the columns that older clients know"


def test_an_older_client_sees_the_schedules_of_its_queues(
    web: Any, http: httpx.Client, schedules: list[str], make_key: Callable[..., str]
) -> None:
    for name in schedules[5:]:
        assert http.delete(f"/api/schedules/{name}").status_code == 200
    key = {"Authorization": f"Bearer {make_key('reader', 'read:orders')}"}
    with httpx.Client(base_url=web.url, headers=key) as reader:
        rows = call_verb(reader, "schedules", {"name": None}).json()["answers"][0]["rows"]
        other = call_verb(reader, "schedules", {"name": schedules[0]})
    assert [row[0] for row in rows] == schedules[1:5:2]
    assert other.json()["answers"] == [{"rows": []}]


def test_the_python_client_lists_schedules_of_an_older_server(
    web: Any,
    db: Db,
    schedules: list[str],
    make_key: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db.execute("select penstock.drop_schedule(name) from unnest(%s::text[]) name", [schedules[5:]])
    older = {name: verb for name, verb in verbs().items() if name != "schedule_page"}
    monkeypatch.setattr("penstock.server.api.verbs.verbs", lambda: older)
    with Client(web.url, make_key("reader", "read")) as client:
        assert [each.name for each in client.schedules()] == schedules[:5]
