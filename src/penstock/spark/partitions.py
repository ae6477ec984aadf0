"""Divides a log between two positions into partitions, one for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from penstock.spark.offsets import ServicePosition
from penstock.spark.options import Service
from penstock.spark.service_connection import Server
from penstock.spark.snapshot_diff import END, Position, Snapshot, Span, between
from penstock.spark.table_columns import Table

ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of a span after one position and up to another, in this order."""

    span: Span
    after: Position
    until: Position
    count: int


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """The input of a task: some parts of one service's log."""

    service: Service
    stretches: tuple[Stretch, ...]


class Planner:
    """Divides the log of a service between two positions."""

    def __init__(self, server: Server, table: Table, row_filter: str, step: int) -> None:
        self._server = server
        self._table = table
        self._filter = row_filter
        self._step = step

    def onward(
        self, start: ServicePosition, window: Snapshot, limit: int
    ) -> tuple[ServicePosition, list[Stretch]]:
        """The position after at most `limit` rows from `start`, within `window`."""
        stretches, more = self._cut(start.seen, window, start.until, END, limit)
        if more:
            return start.partway(window, stretches[-1].until), stretches
        return start.reached(window), stretches

    def within(self, start: ServicePosition, end: ServicePosition) -> list[Stretch]:
        """The parts that `onward` found from `start` to `end`, found again after a restart."""
        stretches: list[Stretch] = []
        if start.window is not None and start.window not in (end.window, end.seen):
            # The window of `start` ended on the way, and another one started.
            stretches, _ = self._cut(start.seen, start.window, start.until, END, ALL)
            start = start.reached(start.window)
        until = end.until if end.window else END
        rest, _ = self._cut(start.seen, end.window or end.seen, start.until, until, ALL)
        return stretches + rest

    def _cut(
        self, seen: Snapshot, window: Snapshot, after: Position, until: Position, limit: int
    ) -> tuple[list[Stretch], bool]:
        stretches: list[Stretch] = []
        for span in between(seen, window):
            cuts, more = self._server.cuts(
                self._table, span, self._filter, after, until, limit, self._step
            )
            counted = 0
            for cut in cuts:
                stretches.append(Stretch(span, after, cut.position, cut.count - counted))
                after, counted = cut.position, cut.count
            limit -= counted
            if more:
                return stretches, True
        return stretches, False


def packed(service: Service, stretches: Sequence[Stretch], rows: int) -> Iterator[LogPartition]:
    """Small parts share a task."""
    pack: list[Stretch] = []
    for stretch in stretches:
        if pack and sum(each.count for each in pack) + stretch.count > rows:
            yield LogPartition(service, tuple(pack))
            pack = []
        pack.append(stretch)
    if pack:
        yield LogPartition(service, tuple(pack))
