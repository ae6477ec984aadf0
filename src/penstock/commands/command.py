"""A statement, its parameters and the decoder of its result. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")
Rows: TypeAlias = Sequence[Sequence[Any]]

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """A statement and the decoder of its rows.

    Attributes:
        sql: The statement, for psycopg or any driver with `%(name)s` parameters.
        params: The parameters by name.
        decode: A function that converts the rows to the result.
        light: Whether its commit does not have to wait for the disk, because after a crash the call
            is repeated.
    """

    sql: str
    params: Mapping[str, Any]
    decode: Callable[[Rows], T]
    light: bool = False

    @property
    def alone(self) -> str:
        """The statement for a transaction that contains nothing else."""
        return _lightly(self.sql) if self.light else self.sql

    def numbered(self) -> tuple[Any, ...]:
        """Return the statement with `$1` parameters and their values, as asyncpg takes them.

        await connection.fetchval(*operations.enqueue("emails", payload).numbered())
        """
        return self.numbered_text(self.sql), *(self.params[name] for name in self.names(self.sql))

    @staticmethod
    def names(sql: str) -> tuple[str, ...]:
        """Return the names of the parameters of a statement, each once.

        Args:
            sql: The statement, with `%(name)s` parameters.
        """
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(sql)))

    @staticmethod
    def numbered_text(sql: str) -> str:
        """Return a statement with `$1` for the first of its `names`, and so on.

        Args:
            sql: The statement, with `%(name)s` parameters.
        """
        names = Command.names(sql)
        return _PLACEHOLDER.sub(lambda match: f"${names.index(match[1]) + 1}", sql)

    def then(self, more: Callable[[T], U]) -> Command[U]:
        """Return the same command with its result passed through a function.

        Args:
            more: The function.
        """
        return Command(self.sql, self.params, lambda rows: more(self.decode(rows)), self.light)


def call(function: str, /, columns: str = "*", **types: str) -> str:
    """A statement that calls a function of the schema, with named and typed arguments."""
    arguments = ", ".join(f"{name} => %({name})s::{type_}" for name, type_ in types.items())
    return f"select {columns} from penstock.{function}({arguments})"


@cache
def _lightly(sql: str) -> str:
    # As columns of a row they cost half as much as in two tables.
    return f"""select it.*
from (select pg_catalog.set_config('synchronous_commit', 'off', true),
             pg_catalog.set_config('penstock.alone', 'on', true)) alone, (
{sql}
) it"""


def nothing(rows: Rows) -> None:
    return None


def scalar(rows: Rows) -> Any:
    """The only value of the only row."""
    return rows[0][0]


def utc(value: datetime | None) -> Any:
    """The time in UTC, from any time zone of the session. None stays None, which Any allows."""
    return None if value is None else value.astimezone(UTC)


def utc_row(row: Sequence[Any]) -> list[Any]:
    """The values of a row, with its times in UTC."""
    return [utc(value) if isinstance(value, datetime) else value for value in row]
