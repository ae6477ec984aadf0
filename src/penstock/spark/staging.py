"""The part of a task in a write: it stages its partition in `penstock.spark_staged`.

Nothing of it is in a queue until the driver publishes the write. Every attempt of a task stages
under its own id, so the rows of a failed attempt are never published. No transaction is open while
Spark computes the next rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import (
    InvalidQueueNameError,
    InvalidValueError,
    PayloadNotStorableError,
    PayloadTooLargeError,
    PenstockError,
    QueueNotFoundError,
    translated,
)
from penstock.spark.binary_arrays import encode_column, register_arrays
from penstock.spark.sink_columns import CHECKSUM_MODULUS, TARGETS

PIECE_ROWS: Final = 10_000  # the parameters of spark_stage
PIECE_BYTES: Final = 2 * 2**20
# In the order of the parameters of spark_stage.
PARAMETERS: Final = tuple(name for name in TARGETS if name != "queue")
_STAGE: Final = "select * from penstock.spark_stage(" + ", ".join(["%s"] * 13) + ")"
_ABOUT_ROWS: Final = (
    InvalidQueueNameError,
    InvalidValueError,
    PayloadNotStorableError,
    PayloadTooLargeError,
    QueueNotFoundError,
)
# Columns with another name in SQL.
_COLUMNS: Final = {"delay": "delay_seconds", "ttl": "ttl_seconds"}


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one queue. `rows` are their numbers within the partition."""

    queue: str
    batch: pa.RecordBatch
    rows: Sequence[int]


@dataclass(slots=True)
class Staging:
    """One attempt of a task. `columns` are those of the batches, by the names of the sink."""

    connection: psycopg.Connection[Any]
    attempt: UUID
    partition: int
    columns: Sequence[str]
    queue: str | None
    count: int = 0
    checksum: int = 0
    _pieces: int = 0
    _seen: int = 0

    def __post_init__(self) -> None:
        register_arrays(self.connection)

    def add(self, batch: pa.RecordBatch) -> None:
        named = pa.RecordBatch.from_arrays(batch.columns, names=list(self.columns))
        for piece in self._split(named):
            self._stage(piece)
        self._seen += batch.num_rows

    def _split(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        per_piece = max(1, min(PIECE_ROWS, PIECE_BYTES * batch.num_rows // (batch.nbytes + 1)))
        for start in range(0, batch.num_rows, per_piece):
            part = batch.slice(start, per_piece)
            rows = range(self._seen + start, self._seen + start + part.num_rows)
            if "queue" in self.columns:
                yield from self._by_queue(part, rows)
            else:
                assert self.queue is not None
                yield Piece(self.queue, part, rows)

    def _by_queue(self, batch: pa.RecordBatch, rows: range) -> Iterator[Piece]:
        queues = batch["queue"]
        if self.queue is not None:
            queues = pc.fill_null(queues, self.queue)
        elif queues.null_count:
            row = rows[pc.index(queues.is_null(), True).as_py()]
            raise self._located(
                InvalidValueError("queue is null, and option queue is not set"), row, "queue"
            )
        for queue in queues.unique():
            chosen = pc.equal(queues, queue)
            places = pc.indices_nonzero(chosen).to_pylist()
            yield Piece(queue.as_py(), batch.filter(chosen), [rows[place] for place in places])

    def _stage(self, piece: Piece) -> None:
        try:
            encoded = [
                encode_column(piece.batch[name], name) if name in self.columns else None
                for name in PARAMETERS
            ]
            parameters = (self.attempt, self._pieces, piece.queue, *encoded)
            with translated():
                row = self.connection.execute(_STAGE, parameters).fetchone()
        except _ABOUT_ROWS as error:
            raise self._explained(error, piece) from error
        assert row is not None
        self._pieces += 1
        self.count += row[0]
        self.checksum = (self.checksum + row[1]) % CHECKSUM_MODULUS

    def _explained(self, error: PenstockError, piece: Piece) -> PenstockError:
        """The same error with its row and column."""
        if isinstance(error, QueueNotFoundError | InvalidQueueNameError):
            return self._located(error, piece.rows[0], "queue")
        if (index := error.fields.get("index")) is not None:
            field = error.fields.get("field", "payload")
            return self._located(error, piece.rows[index], _COLUMNS.get(field, field))
        # PostgreSQL or Arrow refused a whole array.
        for name in PARAMETERS:
            if name in self.columns and (found := self._refusal(piece.batch[name], name)):
                column = piece.batch[name]
                low, high = 0, len(column)
                while high - low > 1:
                    middle = (low + high) // 2
                    if closer := self._refusal(column.slice(low, middle - low), name):
                        found, high = closer, middle
                    else:
                        low = middle
                return self._located(found, piece.rows[low], name)
        return error

    def _refusal(self, column: pa.Array, name: str) -> PenstockError | None:
        try:
            with translated():
                self.connection.execute("select %s is null", [encode_column(column, name)])
        except _ABOUT_ROWS as error:
            return error
        return None

    def _located(self, error: PenstockError, row: int, column: str) -> PenstockError:
        fields = {**error.fields, "row": row, "column": column, "partition": self.partition}
        fields.pop("index", None)
        where = f"row {row} of partition {self.partition}, column {column}"
        hint = error.hint or "Nothing of the write was enqueued. Correct the row, and write again."
        return type(error)(f"{where}: {error.message}", hint=hint, **fields)
