"""What is wrong with the database rather than with the call: an error that says if a retry helps.

Each condition is made on a real server, and met through the sync and the async client, the server
over HTTP and the command line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.chaos.server import wait_for

from penstock import AsyncClient, Client, errors
from penstock.commands.command import Command, scalar

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    db = connect()
    db.execute("select penstock.create_queue('orders')")
    return db


def name_of(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])


@contextmanager
def setting(db: psycopg.Connection[Any], dsn: str, text: str) -> Iterator[str]:
    """Sessions that begin meanwhile have this setting."""
    db.execute(f"alter database {name_of(dsn)} set {text}")
    yield dsn


@contextmanager
def disk_full(db: psycopg.Connection[Any], dsn: str) -> Iterator[str]:
    """A trigger says what PostgreSQL says when it cannot extend a file."""
    db.execute(
        "create function public.full_disk() returns trigger language plpgsql as $$ begin"
        " raise exception 'could not extend file: No space left on device'"
        " using errcode = '53100'; end $$"
    )
    for (table,) in db.execute(
        "select tablename from pg_tables where schemaname = 'penstock'"
    ).fetchall():
        db.execute(
            f"create trigger full_disk before insert on penstock.{table}"
            " execute function public.full_disk()"
        )
    yield dsn


@contextmanager
def locked(db: psycopg.Connection[Any], dsn: str, text: str) -> Iterator[str]:
    """Calls wait for a lock, and sessions give up soon."""
    with setting(db, dsn, text), psycopg.connect(dsn) as holder:
        holder.execute("lock table penstock.queue in access exclusive mode")
        yield dsn


@contextmanager
def user(db: psycopg.Connection[Any], dsn: str, options: str) -> Iterator[str]:
    name = f"user_{uuid4().hex[:12]}"  # roles belong to the server that all tests share
    db.execute(f"create role {name} {options}")
    try:
        yield make_conninfo(dsn, user=name)
    finally:
        db.execute(f"drop role {name}")


CONDITIONS: dict[str, tuple[Any, type[errors.PenstockError], bool]] = {
    "statement timeout": (
        lambda db, dsn: locked(db, dsn, "statement_timeout = '300ms'"),
        errors.QueryCancelledError,
        True,
    ),
    "lock timeout": (
        lambda db, dsn: locked(db, dsn, "lock_timeout = '300ms'"),
        errors.TransactionConflictError,
        True,
    ),
    "read-only": (
        lambda db, dsn: setting(db, dsn, "default_transaction_read_only = on"),
        errors.DatabaseReadOnlyError,
        True,
    ),
    "disk full": (disk_full, errors.DatabaseFullError, False),
    "connection limit": (
        lambda db, dsn: user(db, dsn, "login connection limit 0"),
        errors.ConnectionLimitError,
        True,
    ),
    "no login": (lambda db, dsn: user(db, dsn, "nologin"), errors.LoginRefusedError, False),
    "no rights": (lambda db, dsn: user(db, dsn, "login"), errors.PermissionDeniedError, False),
}


@pytest.fixture(params=CONDITIONS)
def condition(
    request: pytest.FixtureRequest, db: psycopg.Connection[Any], dsn: str
) -> Iterator[tuple[str, type[errors.PenstockError], bool]]:
    make, kind, retryable = CONDITIONS[request.param]
    with make(db, dsn) as reached:
        yield reached, kind, retryable


def check(error: errors.PenstockError, kind: type[errors.PenstockError], retryable: bool) -> None:
    assert (type(error), error.retryable) == (kind, retryable)
    assert error.hint


def test_the_sync_client_says_whether_a_retry_helps(condition: Any) -> None:
    dsn, kind, retryable = condition
    with pytest.raises(errors.PenstockError) as caught, Client(dsn) as client:
        client.enqueue("orders", 1)
    check(caught.value, kind, retryable)


async def test_the_async_client_says_whether_a_retry_helps(condition: Any) -> None:
    dsn, kind, retryable = condition
    with pytest.raises(errors.PenstockError) as caught:
        async with AsyncClient(dsn) as client:
            await client.enqueue("orders", 1)
    check(caught.value, kind, retryable)


def test_the_command_line_says_whether_a_retry_helps(condition: Any) -> None:
    dsn, kind, retryable = condition
    command = [sys.executable, "-m", "penstock.cli", "--json", "--dsn", dsn]
    done = subprocess.run(
        [*command, "enqueue", "orders", "1"], capture_output=True, text=True, check=False
    )
    problem = json.loads(done.stderr)["error"]
    assert (problem["type"], problem["retryable"]) == (kind.__name__, retryable)
    assert done.returncode == kind("").exit_code


@pytest.mark.parametrize("name", ["statement timeout", "lock timeout", "read-only", "disk full"])
def test_the_server_has_a_status_for_it_and_says_whether_a_retry_helps(
    db: psycopg.Connection[Any], dsn: str, serve: Callable[..., Any], name: str
) -> None:
    make, kind, retryable = CONDITIONS[name]
    running = serve(dsn, upkeep="off")
    try:
        headers = {"Authorization": f"Bearer {running.make_key('app', 'admin')}"}
        with httpx.Client(base_url=running.url, headers=headers, timeout=60) as http:
            http.get("/api/stats").raise_for_status()
            with make(db, dsn):
                db.execute(
                    "select pg_terminate_backend(pid, 30000) from pg_stat_activity"
                    " where datname = current_database() and application_name like 'penstock%'"
                )

                def told() -> Any:
                    body = {"topic": "orders", "json": 1}
                    answer = http.post("/api/messages", json=body)
                    # The connections were just cut off.
                    again = answer.json()["code"] == "DatabaseUnavailableError"
                    return None if again else answer

                answer = wait_for(told, "it is reached again", 60)
    finally:
        running.stop()
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (kind("").http_status, kind.__name__)
    assert problem.get("retryable", False) == retryable


def test_serialization_failures_and_deadlocks_are_conflicts(connect: Connect, dsn: str) -> None:
    serializable = psycopg.IsolationLevel.REPEATABLE_READ
    first, second = connect(autocommit=False), connect(autocommit=False)
    connect().execute("create table public.counter as select 1 as id, 0 as n")
    first.isolation_level = second.isolation_level = serializable
    add: Command[int] = Command("update counter set n = n + 1 returning n", {}, scalar)
    client = Client(dsn)
    second.execute("select * from counter")
    client.run(add, first)
    first.commit()
    with pytest.raises(errors.TransactionConflictError) as caught:
        client.run(add, second)
    check(caught.value, errors.TransactionConflictError, True)
    assert isinstance(caught.value.__cause__, psycopg.errors.SerializationFailure)


def test_a_cancelled_call_is_told_from_a_lost_connection(dsn: str, connect: Connect) -> None:
    sleep: Command[Any] = Command("select pg_sleep(600)", {}, scalar)
    caught: list[BaseException] = []

    def run(client: Client) -> None:
        try:
            client.run(sleep)
        except errors.PenstockError as error:
            caught.append(error)

    cancel = (
        "select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity"
        " where query = 'select pg_sleep(600)' and datname = current_database()"
        " and state = 'active'"
    )
    db = connect()
    with Client(dsn) as client:
        thread = threading.Thread(target=run, args=[client])
        thread.start()
        wait_for(lambda: db.execute(cancel).fetchone() != (0,), "it runs", 60)
        thread.join()
    [error] = caught
    assert type(error) is errors.QueryCancelledError


def test_a_retry_helps_only_where_the_table_says_so() -> None:
    helps = {row.error.__name__ for row in errors.ERRORS if row.retryable}
    assert helps == {
        "ConnectionLimitError",
        "DatabaseReadOnlyError",
        "DatabaseUnavailableError",
        "LakeConflictError",
        "QueryCancelledError",
        "QueueFullError",
        "ServerUnavailableError",
        "TransactionConflictError",
    }
