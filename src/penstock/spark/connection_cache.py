"""Connections that one task leaves to the next task of the same Python process.

A new connection takes ADBC 80 ms, because it reads all of pg_type, and a new session has to load
its catalogs and functions. Spark ends its Python processes a minute after their last task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from pyspark import TaskContext


class Connection(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
_kept: dict[str, Any] = {}


@contextmanager
def cached_connection(
    address: str, connect: Callable[[str], C], check: Callable[[C], object]
) -> Iterator[C]:
    """A connection to this address that no other task uses. `check` raises if it is not usable."""
    name = f"{connect.__module__} {address}"
    connection = _checked(_kept.pop(name, None), check) or connect(address)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if TaskContext.get() is None or name in _kept:
        connection.close()
    else:
        _kept[name] = connection


def _checked(connection: C | None, check: Callable[[C], object]) -> C | None:
    """None if there is none, or if the server has closed it."""
    if connection is not None:
        try:
            check(connection)
        except Exception:
            with suppress(Exception):
                connection.close()
            return None
    return connection
