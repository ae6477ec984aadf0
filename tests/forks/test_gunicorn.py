"""gunicorn with --preload: the application is imported once, and forked for each worker."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.chaos.server import end, free_port, wait_for

ROOT = Path(__file__).parents[2]
WORKERS = 3


@pytest.fixture
def url(dsn: str) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    options = ["--preload", "--workers", str(WORKERS), "--threads", "4", "--bind", address]
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *options, "tests.forks.preloaded:app"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PENSTOCK_DSN": dsn},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _answers(f"http://{address}"), "gunicorn answers", 60)
        yield f"http://{address}"
    finally:
        end(process)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, params={"text": "first"}, timeout=20).status_code == 200
    return False


def test_every_worker_of_a_preloaded_application_has_its_own_connection(url: str, dsn: str) -> None:
    def ask(text: str) -> dict[str, Any]:
        answer = httpx.get(url, params={"text": text}, timeout=60)
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        assert found["stored"] == text
        return found

    found: list[dict[str, Any]] = []

    def all_have_answered() -> bool:
        with ThreadPoolExecutor(12) as pool:
            found.extend(pool.map(ask, [f"order {len(found) + n}" for n in range(60)]))
        return len({each["process"] for each in found}) == WORKERS

    wait_for(all_have_answered, "every worker has answered", 60)
    backends: dict[int, set[int]] = {}
    for each in found:
        backends.setdefault(each["process"], set()).add(each["backend"])
    [parents] = {each["parents_backend"] for each in found}
    sessions = [session for each in backends.values() for session in each]
    assert len(set(sessions)) == len(sessions), "no session answers two processes"
    assert parents not in sessions
    with psycopg.connect(dsn) as connection:
        query = "select count(*) from pg_stat_activity where pid = %s"
        assert connection.execute(query, [parents]).fetchone() == (1,), "the parent's is still open"
