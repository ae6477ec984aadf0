"""A database that stops and comes back, under load: the server says so, and needs no help."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator
from penstock.server.auth.api_keys import new_key

TOPIC = "orders"


@pytest.fixture
def home() -> Iterator[Path]:
    """Of a separate database to stop: the one of the tests continues."""
    made = Path(tempfile.mkdtemp(prefix="penstock-away-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


class Caller(threading.Thread):
    """Enqueues, claims and acks without end, and counts how it was answered."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__()
        self.answers: Counter[tuple[int, bool]] = Counter()
        self.enqueued: set[str] = set()
        self.stopping = threading.Event()
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, verify=False, timeout=60
        )

    def run(self) -> None:
        with self._client:
            while not self.stopping.is_set():
                made = self._post("/api/messages", {"topic": TOPIC, "json": 1})
                if made.status_code == 201:
                    self.enqueued.add(made.json()["id"])
                self._work()

    def _work(self) -> None:
        found = self._post("/api/messages/dequeue", {"topic": TOPIC, "wait_seconds": 1})
        for each in found.json().get("messages", []):
            self._post(f"/api/messages/{each['id']}/ack", {"lease_token": each["lease_token"]})

    def _post(self, path: str, body: Any) -> httpx.Response:
        answer = self._client.post(path, json=body)
        self.answers[answer.status_code, "retry-after" in answer.headers] += 1
        if answer.status_code == 503:
            time.sleep(0.05)
        return answer


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, id="a moment"),
        pytest.param(20, id="20 seconds", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_it_is_503_while_the_database_is_away_and_goes_on_when_it_is_back(
    pg_bin: Path, home: Path, start_process: Callable[..., Any], seconds: int
) -> None:
    with EmbeddedPostgres.start(home, bin_dir=pg_bin) as database:
        made = new_key("admin", ["admin"])
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            Migrator(connection).up()
            connection.execute(made.command.sql.encode(), made.command.params)
        process = start_process("--dsn", database.dsn)

        def get(path: str) -> httpx.Response:
            # One caller has to find out that the database is unavailable, and waits for it.
            return httpx.get(f"{process.url}{path}", verify=False, timeout=60)

        callers = [Caller(process.url, made.token) for _ in range(8)]
        for caller in callers:
            caller.start()
        try:
            _wait_for(lambda: all(caller.answers[201, False] > 3 for caller in callers))
            database.stop()
            _wait_for(lambda: all(caller.answers[503, True] for caller in callers))
            assert get("/healthz/ready").status_code == 503
            assert get("/healthz/live").status_code == 200
            time.sleep(seconds)  # not to wait for something: the time is what is tested
            with EmbeddedPostgres.start(home, bin_dir=pg_bin) as again:
                before = [caller.answers[201, False] for caller in callers]
                _wait_for(
                    lambda: all(
                        caller.answers[201, False] > count + 3
                        for caller, count in zip(callers, before, strict=True)
                    )
                )
                assert get("/healthz/ready").status_code == 200
                _stop(callers)
                assert process.popen.poll() is None
                _check(callers, again.dsn)
                process.kill()
        finally:
            _stop(callers)


def _check(callers: list[Caller], dsn: str) -> None:
    answers: Counter[tuple[int, bool]] = sum((c.answers for c in callers), Counter())
    # 409: a message whose lease expired while the database was unavailable was acked too late.
    assert {status for status, _ in answers} <= {200, 201, 503, 409}, answers
    assert not answers[503, False], "a 503 says when to come back"
    with psycopg.connect(dsn) as connection:
        live = connection.execute("select id::text from penstock.messages").fetchall()
        ended = connection.execute("select id::text from penstock.history").fetchall()
    there = {id for (id,) in [*live, *ended]}
    assert set().union(*(caller.enqueued for caller in callers)) <= there


def _stop(callers: list[Caller]) -> None:
    for caller in callers:
        caller.stopping.set()
    for caller in callers:
        caller.join()


def _wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.05)
