# Generated from db/async_sqlalchemy.py by tools/generate_client.py. Do not edit.
"""The psycopg connection behind a SQLAlchemy session or connection.

The sync module is generated from the async one.
"""

from __future__ import annotations

from typing import Any


def is_sqlalchemy(connection: Any) -> bool:
    kinds = type(connection).__mro__
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in kinds)


def driver_connection(connection: Any) -> Any:
    """The connection of psycopg. Other objects are returned unchanged."""
    if not is_sqlalchemy(connection):
        return connection
    if hasattr(connection, "run_sync"):
        return connection  # the asynchronous classes
    if hasattr(connection, "get_bind"):  # a session, or a scoped session
        connection = connection.connection()
    if not hasattr(connection, "in_transaction"):
        return connection
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection
