"""`penstock.http`: what it adds to the contract, and how the server guards its protocol."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

from penstock import NewMessage
from penstock.errors import (
    AuthenticationError,
    InvalidValueError,
    LeaseLostError,
    PenstockError,
    PermissionDeniedError,
    ServerUnavailableError,
)
from penstock.http_client import AsyncClient, Client

PROTOCOL = {"Penstock-Protocol": "1"}


def test_a_program_without_a_database_works_off_a_queue(web: Any, make_key: Any) -> None:
    with Client(web.url, make_key("app", "admin"), worker="w1") as queue:
        assert queue.create_queue("emails", max_attempts=3)
        id = queue.enqueue("emails", {"to": "ada"}, headers={"tenant": "a"})
        queue.enqueue_many("emails", [b"raw", NewMessage(2, delay=60)])
        first, second = queue.claim("emails", 10)
        assert (first.id, first.payload, first.headers) == (id, {"to": "ada"}, {"tenant": "a"})
        assert second.payload == b"raw"
        queue.ack(first)
        with pytest.raises(LeaseLostError):
            queue.ack(first)
        assert queue.nack(second, ValueError("no")) == "scheduled"
        assert queue.message(id).state == "done"
        assert [worker.worker for worker in queue.workers()] == []


def test_a_claim_can_wait(web: Any, make_key: Any) -> None:
    with Client(web.url, make_key("app", "admin")) as queue:
        queue.create_queue("emails")

        def later() -> None:
            while not web.server.context.long_polls.waiting:
                time.sleep(0.01)
            with Client(web.url, make_key("other", "enqueue")) as other:
                other.enqueue("emails", [1], key="k", ttl=60)

        thread = threading.Thread(target=later)
        thread.start()
        [lease] = queue.claim("emails", lease_seconds=60, worker="me", wait_seconds=20)
        thread.join()
        assert (lease.payload, lease.key, lease.attempt) == ([1], "k", 1)
        assert lease.expires_at is not None
        queue.ack(lease)
        with pytest.raises(InvalidValueError, match="wait_seconds"):
            queue.claim("emails", wait_seconds=21)


async def test_the_async_one_is_the_same(web: Any, make_key: Any) -> None:
    async with AsyncClient(web.url, make_key("app", "admin")) as queue:
        await queue.create_queue("emails")
        await queue.enqueue("emails", 1)
        [lease] = await queue.claim("emails", wait_seconds=5)
        await queue.ack(lease)


def test_errors_have_their_names(web: Any, make_key: Any) -> None:
    with pytest.raises(AuthenticationError), Client(web.url, "psk_wrong"):
        pass
    with pytest.raises(ServerUnavailableError), Client("http://127.0.0.1:1", "psk_x"):
        pass
    reader = Client(web.url, make_key("reader", "read:orders-*", "consume:orders-*"))
    with pytest.raises(PermissionDeniedError):
        reader.enqueue("orders-eu", 1)
    with pytest.raises(PermissionDeniedError):
        reader.messages()
    with pytest.raises(PermissionDeniedError):
        reader.maintain()
    with pytest.raises(LeaseLostError):
        reader.ack((1, 1))
    with pytest.raises(InvalidValueError, match="connection"):
        reader.enqueue("x", 1, connection=object())
    reader.close()
    with pytest.raises(PenstockError, match="closed"):
        reader.stats("orders-eu")


def test_a_key_for_some_queues_is_held_to_them(web: Any, make_key: Any) -> None:
    admin = Client(web.url, make_key("admin", "admin"))
    some = Client(web.url, make_key("some", "consume:a", "operate:a", "enqueue:a"))
    with admin, some:
        admin.create_queue("a")
        admin.create_queue("b")
        mine, other = admin.enqueue("a", 1), admin.enqueue("b", 1)
        assert some.message(mine).queue == "a"
        for refused in (
            lambda: some.message(other),
            lambda: some.cancel(other),
            lambda: some.claim("b"),
            lambda: some.pause("b"),
            lambda: some.messages("b"),
        ):
            with pytest.raises(PermissionDeniedError):
                refused()
        [lease] = admin.claim("b")
        with pytest.raises(PermissionDeniedError):
            some.ack(lease)
        [lease] = some.claim("a")
        some.ack(lease)


def test_operators_acts_over_verbs_are_on_record(web: Any, make_key: Any, http: httpx.Client):
    with Client(web.url, make_key("ada", "operate")) as queue:
        queue.create_queue("emails")
        queue.pause("emails")
    items = http.get("/api/admin/activity", params={"actor": "ada"}).json()["items"]
    assert [(item["act"], item["target"]) for item in items] == [
        ("pause", "emails"), ("create_queue", "emails"),
    ]  # fmt: skip


def one(verb: str, **arguments: Any) -> Any:
    return {"calls": [{"verb": verb, "arguments": arguments}]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"calls": []}, 422),
        ({"calls": [{"verb": "drop database", "arguments": {}}]}, 404),
        (one("pause"), 422),
        (one("pause", name=5), 422),
        (one("pause", name={"bytes": "eA=="}), 422),
        (one("pause", name={"other": 1}), 422),
        (one("pause", name={}), 422),
        (one("ack", id=True, token=1), 422),
        (one("ack", id=2**63, token=1), 422),
        (one("ack", id=10**400, token=1), 422),
        (one("ack", id=1, token={"microseconds": 1}), 422),
        (one("ack", id=None, token=None), 409),
        (one("ack_many", ids=1, tokens=[1]), 422),
        (one("stats", queue="a\x00"), 422),
        (one("snooze", id=1, token=1, delay={"microseconds": 10**30}), 422),
        (one("next_fires", cron="x", time_zone="UTC", count=1, after={"time": "2026-01-01"}), 422),
        ({"calls": "x"}, 400),
        ([], 400),
    ],
    ids=lambda value: repr(value)[:70],
)  # fmt: skip
def test_what_is_no_call_of_a_verb_is_refused(shared: httpx.Client, body: Any, status: int) -> None:
    answer = shared.post("/api/verbs", json=body, headers=PROTOCOL)
    assert answer.status_code == status, answer.text
    assert shared.post("/api/verbs", json=body).status_code == 400
