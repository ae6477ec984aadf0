"""The sources of an import. A source has its own connection and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import psycopg
from psycopg import sql

from penstock.importing.errors import ImportSourceError
from penstock.importing.statements import statement

Connection = psycopg.Connection[Any]


class Row(NamedTuple):
    """A message of the source. `payload` and `headers` are JSON texts."""

    key: str
    payload: str | None
    payload_bytes: bytes | None
    headers: str | None
    priority: int | None
    visible_at: datetime | None


class Source(Protocol):
    @property
    def name(self) -> str:
        """The name in the ledger. It must be stable for the same table."""

    @property
    def keeps(self) -> bool:
        """Whether rows stay at the source after they were copied."""

    def count(self) -> int:
        """Return the number of messages that are available."""

    def held(self) -> int:
        """Return the number of messages that another reader holds."""

    def rows(self, count: int, after: str | None) -> list[Row]:
        """Return the next rows by key. Rows to be removed stay locked until the transaction ends.

        Args:
            count: The largest number of rows.
            after: The key to start after, or None for the first rows.
        """

    def remove(self, keys: Sequence[str]) -> None:
        """Remove rows from the source.

        Args:
            keys: The keys of the rows.
        """


def _ask(connection: Connection, query: sql.Composed, **parameters: Any) -> list[Any]:
    """The rows of a query. An error of the source is raised with its own text."""
    try:
        cursor = connection.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        raise ImportSourceError(
            f"the source reported an error: {str(error).splitlines()[0]}",
            hint="This batch was not moved. Correct the arguments and run the import again.",
        ) from error


def _one(connection: Connection, query: sql.Composed, **parameters: Any) -> tuple[Any, ...]:
    rows = _ask(connection, query, **parameters)
    return tuple(rows[0]) if rows else (None, None, None)


@dataclass
class PgmqSource:
    """The messages of a PGMQ queue, without those that a reader holds.

    Attributes:
        connection: A connection to the database of PGMQ.
        queue: The name of the queue in PGMQ.
        keeps: Whether the messages stay there after they were copied.
        name: The name in the ledger.
    """

    connection: Connection
    queue: str
    keeps: bool = False
    name: str = field(init=False)
    _table: sql.Composable = field(init=False)

    def __post_init__(self) -> None:
        table, is_view, identity = _one(
            self.connection, statement("pgmq", "find"), queue=self.queue
        )
        if table is None:
            raise ImportSourceError(
                f"there is no PGMQ queue {self.queue!r} in this database",
                hint="List them with `select * from pgmq.list_queues()`, or name another database "
                "with --from.",
            )
        if is_view:
            raise ImportSourceError(
                f"queue {self.queue!r} is already a queue of Penstock",
                hint="The schema pgmq of this database belongs to Penstock. Name the database of "
                "the PGMQ extension with --from.",
            )
        self.name = f"pgmq {identity}"
        self._table = _relation(table)

    def count(self) -> int:
        return int(_one(self.connection, statement("pgmq", "count", table=self._table))[0])

    def held(self) -> int:
        return int(_one(self.connection, statement("pgmq", "held", table=self._table))[0])

    def rows(self, count: int, after: str | None) -> list[Row]:
        query = statement("pgmq", "rows", table=self._table)
        return [Row(*row) for row in _ask(self.connection, query, count=count)]

    def remove(self, keys: Sequence[str]) -> None:
        query = statement("pgmq", "remove", table=self._table)
        _ask(self.connection, query, keys=list(keys))


@dataclass
class TableSource:
    """The rows of a table as messages.

    Attributes:
        connection: A connection to the database of the table.
        table: The name of the table.
        key: The column that identifies a row. The default is the primary key.
        payload: The column of the payload. The default is the whole row as JSON.
        headers: The column of the headers, a JSON object.
        priority: The column of the priority.
        visible_at: The column of the time of delivery.
        where: A condition in SQL. The default is all rows.
        keeps: Whether the rows stay in the table after they were copied.
        name: The name in the ledger.
    """

    connection: Connection
    table: str
    key: str | None = None
    payload: str | None = None
    headers: str | None = None
    priority: str | None = None
    visible_at: str | None = None
    where: str = "true"
    keeps: bool = False
    name: str = field(init=False)
    _parts: dict[str, sql.Composable] = field(init=False)

    def __post_init__(self) -> None:
        parameters = {"table": self.table}
        table, is_table, identity = _one(self.connection, statement("table", "find"), **parameters)
        if not is_table:
            raise ImportSourceError(
                f"there is no table {self.table!r} in this database",
                hint="Give the schema too, such as public.jobs, or name another database with "
                "--from.",
            )
        query = statement("table", "columns")
        types = dict(_ask(self.connection, query, **parameters))
        key = self.key or self._primary_key(parameters)
        for column in (key, self.payload, self.headers, self.priority, self.visible_at):
            if column is not None and column not in types:
                raise ImportSourceError(
                    f"table {self.table} has no column {column!r}",
                    hint=f"It has: {', '.join(types)}.",
                )
        self.name = f"table {identity}"
        self._parts = self._made_of(table, key, types)

    def _primary_key(self, parameters: dict[str, str]) -> str:
        columns = _ask(self.connection, statement("table", "key"), **parameters)
        if len(columns) != 1:
            raise ImportSourceError(
                f"table {self.table} has no primary key of one column",
                hint="Name a unique column with --key.",
            )
        return str(columns[0][0])

    def _made_of(self, table: str, key: str, types: dict[str, str]) -> dict[str, sql.Composable]:
        def column(name: str | None, form: str, absent: str) -> sql.Composable:
            place: Any = form
            nothing: Any = absent
            return sql.SQL(place).format(sql.Identifier(name)) if name else sql.SQL(nothing)

        raw = self.payload is not None and types[self.payload] == "bytea"
        where, key_type = self._trusted(self.where), self._trusted(types[key])
        return {
            "table": _relation(table),
            "key": sql.Identifier(key),
            "key_type": key_type,
            "where": where,
            "payload": sql.SQL("null::text")
            if raw
            else column(
                self.payload, "coalesce(to_jsonb(t.{}), 'null')::text", "to_jsonb(t)::text"
            ),
            "payload_bytes": column(self.payload, "t.{}", "") if raw else sql.SQL("null::bytea"),
            "headers": column(self.headers, "nullif(to_jsonb(t.{}), 'null')::text", "null::text"),
            "priority": column(self.priority, "t.{}::integer", "null::integer"),
            "visible_at": column(self.visible_at, "t.{}::timestamptz", "null::timestamptz"),
            "lock": sql.SQL("" if self.keeps else "for update skip locked"),
        }

    @staticmethod
    def _trusted(text: str) -> sql.Composable:
        """SQL from the operator or from PostgreSQL. psycopg needs every % doubled."""
        said: Any = text.replace("%", "%%")
        return sql.SQL(said)

    def _statement(self, name: str) -> sql.Composed:
        return statement("table", name, **self._parts)

    def count(self) -> int:
        return int(_one(self.connection, self._statement("count"), nothing=None)[0])

    def held(self) -> int:
        return 0

    def rows(self, count: int, after: str | None) -> list[Row]:
        parameters = {"count": count, "after": after if self.keeps else None}
        return [Row(*row) for row in _ask(self.connection, self._statement("rows"), **parameters)]

    def remove(self, keys: Sequence[str]) -> None:
        _ask(self.connection, self._statement("remove"), keys=list(keys))


def _relation(text: str) -> sql.Composable:
    """A name as regclass prints it, quoted if necessary."""
    name: Any = text.replace("%", "%%")
    return sql.SQL(name)
