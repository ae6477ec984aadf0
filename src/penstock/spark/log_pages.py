"""Reads a part of a log in pages, each in a short transaction and of limited size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from penstock.spark.arrow import ArrowSession, conform
from penstock.spark.options import SourceOptions
from penstock.spark.partitions import Stretch
from penstock.spark.snapshot_diff import Position
from penstock.spark.table_columns import SERVICE, Table
from penstock.sql.loader import load_query

# A payload may have a few bytes or megabytes. A page ends at the first limit that is reached.
PAGE_BYTES: Final = 32 * 2**20
PAGE_ROWS: Final = 100_000


class Pages:
    """Reads parts of a log as Arrow with exactly this schema."""

    def __init__(
        self, options: SourceOptions, service: str, schema: pa.Schema, row_filter: str
    ) -> None:
        self._table = options.table
        self._service = service
        self._schema = schema
        self._filter = row_filter
        self._columns = selected(options.table, schema)
        # To know where the next page starts.
        self._columns += [name for name in ("xid", options.table.id) if name not in self._columns]

    def read(self, session: ArrowSession, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        after, is_last, pages = stretch.after, False, 1
        while after < stretch.until and not is_last:
            rows = pages * PAGE_ROWS
            table, is_all = session.page(self.query(stretch, after, rows), pages * PAGE_BYTES)
            is_last = is_all and table.num_rows < rows
            if not is_last:
                table = self._whole(table)
                if not table.num_rows:
                    pages *= 2
                    continue
                after, pages = self._position(table, table.num_rows - 1), 1
            for batch in table.to_batches():
                yield conform(batch, self._schema, self._service)

    def query(self, stretch: Stretch, after: Position, rows: int) -> str:
        return load_query("spark/page").format(
            columns=", ".join(self._columns),
            relation=self._table.relation,
            id=self._table.id,
            span=stretch.span.condition,
            filter=self._filter,
            after_xid=after.xid,
            after_id=after.id,
            until_xid=stretch.until.xid,
            until_id=stretch.until.id,
            limit=rows,
        )

    def _whole(self, table: pa.Table) -> pa.Table:
        """Without the rows of its last position: more of them may follow, and the next page begins
        behind a position. They are few: the attempts that a transaction made at one message."""
        kept = table.num_rows - 1
        last = self._position(table, kept)
        while kept > 0 and self._position(table, kept - 1) == last:
            kept -= 1
        return table.slice(0, kept)

    def _position(self, table: pa.Table, row: int) -> Position:
        """An xid in the format that PostgreSQL sends."""
        xid, id = (table[self._columns.index(name)][row] for name in ("xid", self._table.id))
        return Position(int.from_bytes(xid.as_py()), id.as_py())


def selected(table: Table, schema: pa.Schema) -> list[str]:
    """The select list for the columns of a schema. `conform` adds the service."""
    names = tuple(name for name in schema.names if name != SERVICE)
    return [column.name for column in table.choose(names)] if names else ["true"]
