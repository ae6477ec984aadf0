"""Moves messages from a source into a queue, in batches that can be interrupted at any point.

A batch is locked at its source, recorded in the ledger and enqueued in one transaction of the
queue's database, removed from its source, and removed from the ledger. After a crash the ledger
lists messages that are in the queue and only have to be removed from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from penstock.errors import PenstockError, translated
from penstock.importing.errors import ImportSourceError
from penstock.importing.sources import Row, Source
from penstock.importing.statements import statement

Connection = psycopg.Connection[Any]
MAX_BATCH = 10_000


@dataclass(frozen=True)
class Move:
    """The result of an import.

    Attributes:
        queue: The queue that was filled.
        moved: The number of messages that were enqueued.
        held: The number of messages that are still at the source because a reader holds them.
    """

    queue: str
    moved: int
    held: int


@dataclass(frozen=True)
class Batch:
    """Rows in the queue, the number that were enqueued now, and the error of the next row."""

    keys: list[str]
    enqueued: int
    error: ImportSourceError | None = None


@dataclass
class Mover:
    """Moves messages from a source into a queue.

    Attributes:
        target: A connection to the database of the queue.
        queue: The name of the queue.
        source: The source.
        source_connection: The connection of the source, which may be another database.
        batch: The number of messages in each transaction, up to 10,000.
    """

    target: Connection
    queue: str
    source: Source
    source_connection: Connection
    batch: int = 1000

    def prepare(self) -> None:
        """Create the queue if it is missing, and finish an interrupted import."""
        with translated():
            self._run("create", queue=self.queue)
            while not self.source.keeps and (keys := self._leftover()):
                with self.source_connection.transaction():
                    self.source.remove(keys)
                self._run("clear", source=self.source.name, keys=keys)

    def run(self, on_batch: Callable[[int], None] = lambda _: None) -> Move:
        """Move messages until no more are available.

        Args:
            on_batch: Called after each batch with the number of its messages.

        Returns:
            The numbers of moved and held messages.
        """
        moved = 0
        for count in self._batches():
            moved += count
            on_batch(count)
        return Move(self.queue, moved, self.source.held())

    def _batches(self) -> Iterator[int]:
        after: str | None = None
        while True:
            with self.source_connection.transaction():
                rows = self.source.rows(self.batch, after)
                batch = self._bring(rows)
                if not self.source.keeps:
                    self.source.remove(batch.keys)
            if not self.source.keeps:
                self._run("clear", source=self.source.name, keys=batch.keys)
            if rows:
                after = rows[-1].key
                yield batch.enqueued
            if batch.error is not None:
                raise batch.error
            if not rows:
                return

    def _bring(self, rows: Sequence[Row]) -> Batch:
        """Enqueue all rows. If one is invalid, enqueue those before it and return its error."""
        if not rows:
            return Batch([], 0)
        try:
            with translated(), self.target.transaction():
                return Batch([row.key for row in rows], self._enqueue(rows))
        except PenstockError as error:
            if not (error.sqlstate or "").startswith("PS"):
                raise  # it is not about this row
            if len(rows) == 1:
                return Batch([], 0, self._blame(rows[0], error))
        whole = Batch([], 0)
        for row in rows:
            one = self._bring([row])
            whole = Batch([*whole.keys, *one.keys], whole.enqueued + one.enqueued, one.error)
            if one.error is not None:
                break
        return whole

    def _blame(self, row: Row, error: PenstockError) -> ImportSourceError:
        return ImportSourceError(
            f"row {row.key} cannot be enqueued: {error.message}",
            hint="The row stays at its source, and the rows before it are in the queue. Correct "
            "the row or change the settings of the queue, then run the import again.",
        )

    def _enqueue(self, rows: Sequence[Row]) -> int:
        noted = self._run("note", source=self.source.name, keys=[row.key for row in rows])
        new = {key for (key,) in noted}
        fresh = [row for row in rows if row.key in new]
        if fresh:
            self._run(
                "enqueue",
                queue=self.queue,
                payloads=_column(fresh, "payload"),
                payloads_bytes=_column(fresh, "payload_bytes"),
                headers=_column(fresh, "headers"),
                priorities=_column(fresh, "priority"),
                visible_ats=_column(fresh, "visible_at"),
            )
        return len(fresh)

    def _leftover(self) -> list[str]:
        return [k for (k,) in self._run("leftover", source=self.source.name, count=MAX_BATCH)]

    def _run(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self.target.execute(statement("ledger", name), parameters)
        return cursor.fetchall() if cursor.description else []


def _column(rows: Sequence[Row], name: str) -> list[Any] | None:
    """The values, or None if no row has one, so that enqueue can use its short path."""
    values = [getattr(row, name) for row in rows]
    return values if any(value is not None for value in values) else None
