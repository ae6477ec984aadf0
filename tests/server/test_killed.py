"""A server that is killed in the middle of its tasks loses none and repeats none."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

Db = psycopg.Connection[Any]
QUEUES = "/managed-services/local/queues"
UNFINISHED = (
    "select count(*) from penstock.service_task where status in ('pending', 'running', 'failed')"
)


@pytest.mark.parametrize(
    ("tasks", "kills"),
    [
        pytest.param(60, 2, id="short"),
        pytest.param(1000, 10, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_every_task_ends_once_and_the_ids_match(
    start_process: Callable[..., Any], make_key: Callable[..., str], db: Db, tasks: int, kills: int
) -> None:
    headers = {"Authorization": f"Bearer {make_key('admin', 'admin')}"}
    process = start_process()
    with httpx.Client(headers=headers, verify=False, timeout=30) as client:
        for number in range(4):
            client.post(f"{process.url}{QUEUES}", json={"name": f"q{number}"}).raise_for_status()
        _wait(db, UNFINISHED)
        feeder = _Feeder(client, tasks)
        feeder.url = process.url
        feeder.start()
        chance = random.Random(tasks)
        for kill in range(kills):
            _wait_for(lambda kill=kill: feeder.accepted_count > kill * tasks // (kills + 1))
            time.sleep(chance.random() / 5)
            process.kill()
            process = start_process()
            feeder.url = process.url
        feeder.join()
        _wait(db, UNFINISHED)
        _check(db, feeder.accepted, client, process.url)


class _Feeder(threading.Thread):
    """Requests enqueues, also while the server is killed, and remembers the confirmed ones."""

    def __init__(self, client: httpx.Client, count: int) -> None:
        super().__init__()
        self.url = ""
        self.accepted: dict[str, int] = {}
        self._client = client
        self._count = count

    @property
    def accepted_count(self) -> int:
        return len(self.accepted)

    def run(self) -> None:
        for number in range(self._count):
            while not self._ask(number):
                time.sleep(0.02)

    def _ask(self, number: int) -> bool:
        payloads = [{"payload": {"task": number, "part": part}} for part in range(3)]
        url = f"{self.url}{QUEUES}/q{number % 4}/messages"
        try:
            answer = self._client.post(url, json={"messages": payloads})
        except httpx.TransportError:
            return False  # it may have got through: then it is asked for twice, and done twice
        if answer.status_code == 202:
            self.accepted[answer.json()["task_id"]] = number
        return answer.status_code == 202


def _check(db: Db, accepted: dict[str, int], client: httpx.Client, url: str) -> None:
    rows = db.execute(
        "select id::text, result, status from penstock.service_task where kind = 'enqueue'"
    ).fetchall()
    done = {id: result["message_ids"] for id, result, status in rows if status == "completed"}
    assert accepted.keys() <= done.keys()
    assert len(done) == len(rows)
    messages = dict(
        db.execute("select id, payload from penstock.messages where queue ~ '^q'").fetchall()
    )
    told = [id for ids in done.values() for id in ids]
    assert sorted(told) == sorted(messages)
    for task, number in accepted.items():
        expected = [{"task": number, "part": part} for part in range(3)]
        assert [messages[id] for id in done[task]] == expected
    some = next(iter(accepted))
    path = f"{url}{QUEUES}/q{accepted[some] % 4}/messages"
    answer = client.get(path, params={"task_id": some})
    assert answer.json()["result"]["message_ids"] == done[some]


def _wait(db: Db, sql: str) -> None:
    _wait_for(lambda: db.execute(sql).fetchone() == (0,))


def _wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.05)
