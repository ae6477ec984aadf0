"""Moves messages from a source into a queue, in batches that can be cut off anywhere.

A batch is held at its source, noted in the ledger and enqueued in one transaction of the queue's
database, removed from its source, and struck from the ledger. Whoever dies in between leaves a
note: what it names is in the queue, and only has to be removed.
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
    """What an import did. `held`: still at the source, in the hands of somebody else."""

    queue: str
    moved: int
    held: int


@dataclass(frozen=True)
class Batch:
    """Rows that are in the queue, so many of them by this; and why the next one is not."""

    keys: list[str]
    enqueued: int
    error: ImportSourceError | None = None


@dataclass
class Mover:
    """`source_connection` is the source's own; `target` may be of the same database or another."""

    target: Connection
    queue: str
    source: Source
    source_connection: Connection
    batch: int = 1000

    def prepare(self) -> None:
        """The queue is there, and what an earlier import left half done is done."""
        with translated():
            self._run("create", queue=self.queue)
            while not self.source.keeps and (keys := self._leftover()):
                with self.source_connection.transaction():
                    self.source.remove(keys)
                self._run("clear", source=self.source.name, keys=keys)

    def run(self, on_batch: Callable[[int], None] = lambda _: None) -> Move:
        """Until there is nothing left that can be had now."""
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
        """All of them; or, if one is to blame, those before it, and what is wrong with it."""
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
            hint="It is where it was; what came before it is in the queue. Put it right, or change "
            "the settings of the queue, and run the import again.",
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
    """None where no row has it: then the short way into the queue stays open."""
    values = [getattr(row, name) for row in rows]
    return values if any(value is not None for value in values) else None
