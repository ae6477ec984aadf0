"""A database that is hung: it takes connections and answers nothing. The server says so in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.chaos.server import wait_for
from tests.server.stopped import Stoppable, stoppable

# Far more than anything should take here, and less than it took while calls waited for the
# database without a limit: 20 seconds and more.
PATIENCE = 12.0
CALLS: dict[str, tuple[str, str, Any]] = {
    "enqueue": ("POST", "/api/messages", {"topic": "orders", "json": 1}),
    "claim": ("POST", "/api/messages/dequeue", {"topic": "orders"}),
    "long poll": ("POST", "/api/messages/dequeue", {"topic": "orders", "wait_seconds": 20}),
    "stats": ("GET", "/api/stats", None),
    "settings": ("PUT", "/api/topic-configs/orders", {"max_depth": 10}),
    "metrics": ("GET", "/metrics", None),
    "page": ("GET", "/queues.json", None),
    "readiness": ("GET", "/healthz/ready", None),
}


@pytest.fixture
def database(pg_bin: Path) -> Iterator[Stoppable]:
    with stoppable(pg_bin) as made:
        yield made


@pytest.fixture
def http(database: Stoppable, serve: Callable[..., Any]) -> Iterator[httpx.Client]:
    running = serve(database.dsn)
    try:
        headers = {"Authorization": f"Bearer {running.make_key('admin', 'admin')}"}
        with httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client:
            ask(client, "settings").raise_for_status()
            yield client
    finally:
        database.go_on()
        running.stop()


def ask(http: httpx.Client, name: str) -> httpx.Response:
    method, path, body = CALLS[name]
    return http.request(method, path, json=body)


def test_every_call_under_way_is_answered_and_all_go_on_when_it_is_back(
    http: httpx.Client, database: Stoppable
) -> None:
    assert ask(http, "readiness").status_code == 200
    database.stop()
    with ThreadPoolExecutor(len(CALLS)) as pool:
        answers = dict(zip(CALLS, pool.map(lambda name: ask(http, name), CALLS), strict=True))
    metrics = answers.pop("metrics")
    assert "penstock_database_up 0" in metrics.text or metrics.status_code == 503
    for name, answer in answers.items():
        if name == "long poll" and answer.status_code == 200:
            continue  # nothing came in its time
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), name
        problem = answer.json()
        assert (problem["code"], problem["retryable"]) == ("DatabaseUnavailableError", True), name
        assert "does not answer" in problem["detail"], name
    assert http.get("/healthz/live").status_code == 200
    database.go_on()
    wait_for(lambda: ask(http, "readiness").status_code == 200, "it is ready again", 60)
    wait_for(lambda: ask(http, "enqueue").status_code == 201, "messages go in again", 60)
    assert ask(http, "stats").status_code == 200


def test_a_statement_that_is_only_slow_is_waited_for(
    http: httpx.Client, database: Stoppable
) -> None:
    """It takes longer than the database may be silent, and the database is not."""
    with (
        psycopg.connect(database.dsn) as holder,
        psycopg.connect(database.dsn, autocommit=True) as db,
    ):
        holder.execute("lock table penstock.queue in access exclusive mode")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask, http, "settings")
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            wait_for(lambda: db.execute(waiting).fetchone() != (0,), "it waits for the lock", 60)
            # Until the server has looked after it, on its own connection for that.
            asked = (
                "select query_start from pg_stat_activity"
                " where application_name = 'penstock health'"
            )
            first = wait_for(lambda: db.execute(asked).fetchone(), "it was looked after", 60)
            wait_for(lambda: db.execute(asked).fetchone() != first, "once more", 60)
            holder.rollback()
            assert answer.result().status_code == 200
