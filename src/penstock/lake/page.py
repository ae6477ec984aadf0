"""A stretch of a log, page by page: each a short transaction, none larger than memory likes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from psycopg import sql

from penstock.lake.arrow import ArrowSession, conform
from penstock.lake.contract import SERVICE, Table
from penstock.lake.options import SourceOptions
from penstock.lake.plan import Stretch
from penstock.lake.snapshot import Position
from penstock.lake.statements import statement

PAGE_BYTES: Final = 32 * 2**20
# Payloads may be anything from a number to megabytes, so the first page is small, and each next
# one at most four times as long.
FIRST_ROWS, MOST_ROWS = 1_000, 100_000


class Pages:
    """Reads stretches as Arrow of exactly this schema."""

    def __init__(
        self, options: SourceOptions, service: str, schema: pa.Schema, row_filter: str
    ) -> None:
        self._table = options.table
        self._schema = schema
        self._filter = row_filter
        self._rows = FIRST_ROWS
        # Two more, to know where the next page begins.
        columns = selected(options.table, service, schema)
        self._columns = ", ".join([*columns, "xid::text::bigint", options.table.id])

    def read(self, session: ArrowSession, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        after = stretch.after
        while after < stretch.until:
            asked = self._rows
            table = session.table(self.query(stretch, after, asked))
            width = len(self._schema)
            for batch in table.to_batches():
                yield conform(batch.select(list(range(width))), self._schema)
            if table.num_rows < asked:
                return
            after = Position(table[width][-1].as_py(), table[width + 1][-1].as_py())
            self._rows = self._next_rows(asked, table.nbytes)

    def query(self, stretch: Stretch, after: Position, rows: int) -> str:
        return statement("page").format(
            columns=self._columns,
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

    @staticmethod
    def _next_rows(rows: int, size: int) -> int:
        fitting = int(rows * PAGE_BYTES / max(size, 1))
        return max(1, min(fitting, rows * 4, MOST_ROWS))


def selected(table: Table, service: str, schema: pa.Schema) -> list[str]:
    """What to select for the columns of a schema."""
    name = sql.Literal(service).as_string(None)
    return [
        f"{name}::text" if column.name == SERVICE else column.expression
        for column in table.choose(tuple(schema.names))
    ]
