"""Several server processes behind one port."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

Start = Callable[..., Any]


def children(pid: int) -> list[int]:
    """The server processes of one that started several; not those that Python itself has."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if b"spawn_main" in _command(child)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.05)


@pytest.fixture
def process(start_process: Start) -> Any:
    return start_process("--processes", "2")


@pytest.fixture
def caller(process: Any, make_key: Callable[..., str]) -> Callable[..., httpx.Response]:
    """Calls on a new connection each time: any of the processes may take it."""
    headers = {"Authorization": f"Bearer {make_key('caller', 'admin')}"}

    def call(method: str, path: str, **more: Any) -> httpx.Response:
        url = f"{process.url}{path}"
        return httpx.request(method, url, headers=headers, verify=False, timeout=30, **more)

    return call


def test_they_share_the_port_and_tell_one_sum(
    process: Any, caller: Callable[..., httpx.Response]
) -> None:
    assert len(children(process.popen.pid)) == 2
    for number in range(20):
        body = {"topic": "orders", "json": number}
        assert caller("POST", "/api/messages", json=body).status_code == 201
    # The others' numbers are a second old at most.
    wait_for(lambda: 'how="enqueued"} 20.0' in caller("GET", "/metrics").text)


def test_one_that_dies_is_replaced(process: Any, caller: Callable[..., httpx.Response]) -> None:
    before = children(process.popen.pid)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: set(children(process.popen.pid)) - set(before) != set())
    assert before[1] in children(process.popen.pid)
    assert caller("GET", "/healthz/ready").status_code == 200


def test_sigterm_ends_them_all_in_good_order(process: Any) -> None:
    before = children(process.popen.pid)
    assert process.stop() == 0
    assert not any(_command(pid) for pid in before)


def test_they_end_with_the_one_that_started_them(process: Any) -> None:
    before = children(process.popen.pid)
    process.kill()
    wait_for(lambda: not any(_command(pid) for pid in before))
