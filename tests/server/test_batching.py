"""Calls of many callers that share a statement: each gets its own answer, or its own error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest

Db = psycopg.Connection[Any]


@pytest.fixture
async def caller(web: Any, make_key: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {make_key('app', 'admin')}"}
    async with httpx.AsyncClient(
        base_url=web.url, headers=headers, timeout=60, verify=False
    ) as client:
        await client.get("/api/stats")  # the key is known from now on
        yield client


async def all_at_once(caller: httpx.AsyncClient, calls: list[tuple[str, Any]]) -> list[Any]:
    return await asyncio.gather(*(caller.post(path, json=body) for path, body in calls))


async def test_each_enqueue_has_its_own_id(caller: httpx.AsyncClient, db: Db) -> None:
    bodies = [{"topic": "orders", "json": n} for n in range(60)]
    answers = await all_at_once(caller, [("/api/messages", body) for body in bodies])
    assert {answer.status_code for answer in answers} == {201}
    rows = dict(db.execute("select id::text, payload from penstock.messages").fetchall())
    assert [rows[answer.json()["id"]] for answer in answers] == list(range(60))


async def test_one_bad_message_fails_alone(caller: httpx.AsyncClient, db: Db) -> None:
    await caller.put("/api/topic-configs/orders", json={"max_payload_bytes": 50})
    bodies: list[Any] = [{"topic": "orders", "json": n} for n in range(30)]
    bodies[7]["json"] = "x" * 100
    bodies[13]["json"] = "\x00"
    bodies[20]["metadata"] = {"a": "\x00"}
    answers = await all_at_once(caller, [("/api/messages", body) for body in bodies])
    statuses = [answer.status_code for answer in answers]
    assert (statuses.pop(20), statuses.pop(13), statuses.pop(7)) == (422, 422, 413)
    assert statuses == [201] * 27
    assert db.execute("select count(*) from penstock.messages").fetchone() == (27,)


async def test_a_queue_with_room_for_some_takes_some(caller: httpx.AsyncClient, db: Db) -> None:
    await caller.put("/api/topic-configs/orders", json={"max_depth": 10})
    calls = [("/api/messages", {"topic": "orders", "json": n}) for n in range(25)]
    statuses = sorted(answer.status_code for answer in await all_at_once(caller, calls))
    assert statuses == [201] * 10 + [429] * 15


async def test_no_message_is_handed_out_twice(caller: httpx.AsyncClient, db: Db) -> None:
    messages = [{"json": n} for n in range(50)]
    await caller.post("/api/messages", json={"topic": "orders", "messages": messages})
    calls: list[tuple[str, Any]] = [
        ("/api/messages/dequeue", {"topic": "orders", "count": count % 4 + 1})
        for count in range(40)
    ]
    answers = await all_at_once(caller, calls)
    shares = [answer.json()["messages"] for answer in answers]
    assert all(len(share) <= body["count"] for share, (_, body) in zip(shares, calls, strict=True))
    found = [message for share in shares for message in share]
    assert sorted(message["json"] for message in found) == list(range(50))
    acks = [(f"/api/messages/{m['id']}/ack", {"lease_token": m["lease_token"]}) for m in found]
    wrong = [(path, {"lease_token": "1"}) for path, _ in acks[:10]]
    settled = await all_at_once(caller, [*acks, *wrong])
    assert [answer.status_code for answer in settled] == [200] * 50 + [409] * 10
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


async def test_who_asks_for_many_gets_them_though_others_do_too(caller: httpx.AsyncClient) -> None:
    for _ in range(2):
        messages = [{"json": n} for n in range(1000)]
        await caller.post("/api/messages", json={"topic": "orders", "messages": messages})
    call = ("/api/messages/dequeue", {"topic": "orders", "count": 300})
    answers = await all_at_once(caller, [call] * 6)
    assert [len(answer.json()["messages"]) for answer in answers] == [300] * 6


async def test_more_may_be_asked_for_than_one_claim_hands_out(caller: httpx.AsyncClient) -> None:
    messages = [{"json": n} for n in range(100)]
    await caller.post("/api/messages", json={"topic": "orders", "messages": messages})
    call = ("/api/messages/dequeue", {"topic": "orders", "count": 1000})
    answers = await all_at_once(caller, [call] * 12)
    assert {answer.status_code for answer in answers} == {200}
    assert sum(len(answer.json()["messages"]) for answer in answers) == 100


async def test_one_lease_acked_twice_at_once_is_acked_once(caller: httpx.AsyncClient) -> None:
    await caller.post("/api/messages", json={"topic": "orders", "json": 1})
    answer = await caller.post("/api/messages/dequeue", json={"topic": "orders"})
    [lease] = answer.json()["messages"]
    ack = (f"/api/messages/{lease['id']}/ack", {"lease_token": lease["lease_token"]})
    statuses = [answer.status_code for answer in await all_at_once(caller, [ack] * 10)]
    assert sorted(statuses) == [200] + [409] * 9
