"""Sessions that the tasks of one Python process share, one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Connect

from penstock.errors import PenstockError
from penstock.spark import arrow, connection_cache


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What it looks like in a Python process of Spark's."""
    monkeypatch.setattr(connection_cache.TaskContext, "get", lambda: object())
    monkeypatch.setattr(connection_cache, "_kept", {})
    yield
    for connection in connection_cache._kept.values():
        connection.close()


def backend(dsn: str) -> int:
    with arrow.arrow_session(dsn) as session:
        return int(session.table("select pg_backend_pid()")[0][0].as_py())


@pytest.mark.usefixtures("in_a_task")
def test_the_next_task_uses_the_same_session(dsn: str) -> None:
    assert backend(dsn) == backend(dsn)


@pytest.mark.usefixtures("in_a_task")
def test_a_session_that_the_server_ended_is_replaced(dsn: str, connect: Connect) -> None:
    first = backend(dsn)
    connect().execute("select pg_terminate_backend(%s, 30000)", [first])
    assert backend(dsn) != first
    assert backend(dsn) != first


@pytest.mark.usefixtures("in_a_task")
def test_a_session_whose_task_failed_is_not_kept(dsn: str, connect: Connect) -> None:
    with (
        pytest.raises(PenstockError, match="division by zero"),
        arrow.arrow_session(dsn) as session,
    ):
        session.table("select 1 / 0")
    assert connection_cache._kept == {}


def test_outside_of_a_task_no_session_stays(dsn: str) -> None:
    first = backend(dsn)
    assert backend(dsn) != first
    assert connection_cache._kept == {}
