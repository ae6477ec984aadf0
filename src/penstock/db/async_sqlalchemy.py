"""The psycopg connection behind a SQLAlchemy session or connection.

The sync module is generated from the async one.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, Final

ASYNC: Final = True


def is_sqlalchemy(connection: Any) -> bool:
    kinds = type(connection).__mro__
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in kinds)


async def driver_connection(connection: Any) -> Any:
    """The connection of psycopg. Other objects are returned unchanged."""
    if not is_sqlalchemy(connection):
        return connection
    if ASYNC:
        if hasattr(connection, "get_bind"):  # a session, or a scoped session
            connection = connection.connection()
            connection = await connection if isawaitable(connection) else connection
        if not hasattr(connection, "get_raw_connection"):
            return connection  # the synchronous classes
        # As SQLAlchemy does at the first statement. Otherwise its commit would do nothing.
        if not connection.in_transaction():
            await connection.begin()
        return (await connection.get_raw_connection()).driver_connection
    else:
        if hasattr(connection, "run_sync"):
            return connection  # the asynchronous classes
        if hasattr(connection, "get_bind"):  # a session, or a scoped session
            connection = connection.connection()
        if not hasattr(connection, "in_transaction"):
            return connection
        if not connection.in_transaction():
            connection.begin()
        return connection.connection.driver_connection
