"""Cuts a log into parts with a cursor. The counts are exact, and no row leaves the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from penstock.spark.snapshot_diff import Position, Span
from penstock.spark.table_columns import Table
from penstock.sql.loader import load_query


@dataclass(frozen=True, slots=True)
class Cut:
    """The position of the row that is `count` rows ahead."""

    position: Position
    count: int


@dataclass(frozen=True, slots=True)
class Way:
    """The rows of a span after one position and up to another, in this order."""

    table: Table
    span: Span
    row_filter: str
    after: Position
    until: Position

    def sql(self, name: str) -> bytes:
        """A statement about these rows."""
        text = load_query(f"spark/{name}").format(
            relation=self.table.relation,
            id=self.table.id,
            span=self.span.condition,
            filter=self.row_filter,
            after_xid=self.after.xid,
            after_id=self.after.id,
            until_xid=self.until.xid,
            until_id=self.until.id,
        )
        return text.encode()


class Walk:
    """One pass over the log, in its own transaction.

    Rows with the same position stay together, because a transaction may have written two attempts
    of one message. So the pass is one row ahead of the last cut.
    """

    def __init__(self, connection: psycopg.Connection[Any], way: Way) -> None:
        self._connection = connection
        self._way = way
        self._ahead: Position | None = None

    def cuts(self, limit: int, step: int) -> tuple[list[Cut], bool]:
        """A cut after each step, at the limit and at the end, and whether there are more rows."""
        with self._connection.transaction():
            self._connection.execute(load_query("spark/planner").encode())
            self._connection.execute(self._way.sql("cuts"))
            self._ahead = self._fetch()
            found: list[Cut] = []
            count = 0
            while count < limit and self._ahead is not None:
                cut = self._cut(count, min(step, limit - count))
                found.append(cut)
                count = cut.count
            self._connection.execute("close cuts")
        return found, self._ahead is not None

    def _cut(self, count: int, rows: int) -> Cut:
        """Moves a number of rows ahead, counted from the next one, or to the end."""
        passed = self._move(rows - 2) if rows > 2 else 0
        position = self._fetch() if rows > 1 else self._ahead
        if position is None:
            (last,) = self._connection.execute(self._way.sql("last_cut")).fetchall()
            self._ahead = None
            return Cut(_position(last), count + 1 + passed)
        count += rows
        while (following := self._fetch()) == position:
            count += 1
        self._ahead = following
        return Cut(position, count)

    def _move(self, rows: int) -> int:
        return self._connection.execute(f"move forward {rows} in cuts".encode()).rowcount

    def _fetch(self) -> Position | None:
        row = self._connection.execute("fetch next from cuts").fetchone()
        return _position(row) if row else None


def _position(row: tuple[str, int]) -> Position:
    return Position(int(row[0]), row[1])
