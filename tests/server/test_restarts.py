"""Servers that are killed and started again under long polls and keyed calls that are repeated."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

Db = psycopg.Connection[Any]
CONSUMERS = 50
PRODUCERS = 4


class Callers:
    """Threads that repeat each call under its key until it is answered, and then once more."""

    def __init__(self, url: str, key: str, count: int) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {key}"}
        self.count = count
        self.stored: dict[int, str] = {}
        self.settled: Counter[str] = Counter()
        self.different: list[tuple[str, str]] = []
        self.ending = threading.Event()
        self.threads = [
            *(threading.Thread(target=self._produce, args=(n,)) for n in range(PRODUCERS)),
            *(threading.Thread(target=self._consume, args=(n,)) for n in range(CONSUMERS)),
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _produce(self, first: int) -> None:
        with httpx.Client(headers=self.headers, timeout=60) as client:
            for number in range(first, self.count, PRODUCERS):
                body = {"topic": "orders", "json": number}
                made = self._twice(client, "/api/messages", body, f"n-{number}")
                self.stored[number] = made.json()["id"]

    def _consume(self, number: int) -> None:
        body = {"topic": "orders", "wait_seconds": 20, "visibility_timeout_seconds": 5}
        with httpx.Client(headers=self.headers, timeout=60) as client:
            while not self.ending.is_set():
                found = self._answered(client, "/api/messages/dequeue", body, None)
                for message in found.json()["messages"]:
                    self._settle(client, message, with_others=number % 2 == 0)

    def _settle(self, client: httpx.Client, message: dict[str, Any], *, with_others: bool) -> None:
        id, proof = message["id"], {"lease_token": message["lease_token"]}
        key = f"ack-{id}-{message['lease_token']}"
        if with_others:
            body = {"messages": [{"id": id, **proof}]}
            [result] = self._twice(client, "/api/messages/settle", body, key).json()["results"]
            self.settled[id] += result["settled"]
        else:
            answer = self._twice(client, f"/api/messages/{id}/ack", proof, key)
            self.settled[id] += answer.status_code == 200

    def _twice(self, client: httpx.Client, path: str, body: Any, key: str) -> httpx.Response:
        first = self._answered(client, path, body, key)
        again = self._answered(client, path, body, key)
        if first.is_success and (first.status_code, first.text) != (again.status_code, again.text):
            self.different.append((first.text, again.text))
        return first

    def _answered(
        self, client: httpx.Client, path: str, body: Any, key: str | None
    ) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        while True:
            try:
                answer = client.post(f"{self.url}{path}", json=body, headers=headers)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code not in (429, 503):
                return answer


@pytest.mark.parametrize(
    ("count", "kills"),
    [
        pytest.param(400, 2, id="short"),
        pytest.param(20_000, 10, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_kills_lose_nothing_and_nothing_is_stored_or_settled_twice(
    start_process: Callable[..., Any], make_key: Callable[..., str], db: Db, count: int, kills: int
) -> None:
    db.execute("select penstock.create_queue('orders')")
    process = start_process()
    port = str(urlsplit(process.url).port)
    callers = Callers(process.url, make_key("callers", "admin"), count)
    callers.start()
    try:
        for kill in range(1, kills + 1):
            _wait(lambda kill=kill: len(callers.stored) >= count * kill // (kills + 1))  # type: ignore[misc]
            process.kill()
            process = start_process(PENSTOCK_HTTP_PORT=port)
        done = "select count(*) from penstock.history where queue = 'orders' and state = 'done'"
        _wait(lambda: len(callers.stored) == count)
        _wait(lambda: db.execute(done).fetchone() == (count,))
    finally:
        callers.ending.set()
        process.stop()  # it answers the polls that wait, and the callers end
        process = start_process(PENSTOCK_HTTP_PORT=port)
        callers.join()
    assert callers.different == [], "a repeated call got another answer"
    payloads = db.execute("select payload, id::text from penstock.history where queue = 'orders'")
    assert sorted(payloads) == sorted(callers.stored.items()), "each number was stored once"
    assert set(callers.settled) == set(callers.stored.values())
    assert set(callers.settled.values()) == {1}, "each message was settled once"
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


def _wait(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.05)
