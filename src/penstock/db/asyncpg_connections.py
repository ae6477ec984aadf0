"""Runs commands on connections of asyncpg, in the caller's transaction."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.commands.command import Command
from penstock.errors import translated

T = TypeVar("T")


def is_asyncpg(connection: Any) -> bool:
    """Whether it is a connection of asyncpg, including one that its pool has lent."""
    kinds = type(connection).__mro__
    return any(kind.__module__.partition(".")[0] == "asyncpg" for kind in kinds)


async def run(connection: Any, command: Command[T]) -> T:
    with translated():
        return command.decode(await connection.fetch(*command.numbered()))
