"""What the tests of other people's SQL do with a session."""

from __future__ import annotations

from typing import Any

import psycopg
from tests.held import RUN_OUT

Connection = psycopg.Connection[Any]


def rows(connection: Connection, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Runs a statement with $1, $2 ... in it, and returns its result."""
    cursor = connection.execute(statement, arguments)
    return cursor.fetchall() if cursor.description else []


def count(connection: Connection, statement: str, *arguments: Any) -> int:
    """Runs a statement, and returns how many rows it says it worked on."""
    return connection.execute(statement, arguments).rowcount


def value(connection: Connection, statement: str, *arguments: Any) -> Any:
    [[answer]] = rows(connection, statement, *arguments)
    return answer


def let_leases_run_out(connection: Connection) -> None:
    """As if the time of every lease were over by now."""
    connection.execute(RUN_OUT)
