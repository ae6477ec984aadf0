"""History and attempts as a batch or a stream. Reads can be repeated, and change no messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.spark.arrow import arrow_session
from penstock.spark.filters import PushesFilters
from penstock.spark.log_pages import Pages
from penstock.spark.offsets import LogOffset, ServicePosition, check_same_database
from penstock.spark.options import Service, SourceOptions
from penstock.spark.partitions import ALL, LogPartition, Planner, Stretch, packed
from penstock.spark.service_connection import Server, row_filter
from penstock.spark.snapshot_diff import NOTHING, Snapshot
from penstock.spark.tasks import settle


class _LogReader:
    """The base of batch and stream. Pickled with its options only: `read` connects."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.filter = row_filter(options.table, options.queues, options.initial)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogPartition):  # Spark's own partition, if there are no rows
            return
        settle()
        schema = to_arrow_schema(self.schema, timezone="UTC")
        pages = Pages(self.options, partition.service.name, schema, self.filter)
        with arrow_session(partition.service.address()) as session:
            for stretch in partition.stretches:
                yield from pages.read(session, stretch)

    def _planner(self, server: Server) -> Planner:
        return Planner(server, self.options.table, self.filter, self.options.rows_per_partition)

    def _packed(self, service: Service, stretches: Sequence[Stretch]) -> Iterator[LogPartition]:
        return packed(service, stretches, self.options.rows_per_partition)


class LogBatchReader(_LogReader, DataSourceReader):
    """All rows until now."""

    def partitions(self) -> Sequence[InputPartition]:
        partitions: list[InputPartition] = []
        for service in self.options.services:
            with Server(service) as server:
                start = ServicePosition(server.database, NOTHING)
                _, stretches = self._planner(server).onward(start, server.snapshot(), ALL)
                partitions += self._packed(service, stretches)
        return partitions


class FilteredLogBatchReader(PushesFilters, LogBatchReader):
    """The same, with Spark's filters in the statements."""


class LogStreamReader(_LogReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offset is a snapshot. A batch has the rows that only the new one sees."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._servers: dict[str, Server] = {}
        self._targets: dict[str, Snapshot] = {}
        # Spark asks `partitions` next for the path that latestOffset found.
        self._found: tuple[LogOffset, LogOffset, dict[str, list[Stretch]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_servers": {}, "_targets": {}, "_found": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        # The same at every call. latestOffset applies `initial` to it.
        return LogOffset(self.options.table.name, {}).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.options.max_rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        for service in self.options.services:
            self._targets[service.name] = self._server(service).snapshot()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = self._offset(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else ALL
        share = max(rows // len(self.options.services), 1)
        positions, found = dict(begin.positions), {}
        for service in self.options.services:
            before = begin.position(service.name)
            position, found[service.name] = self._advance(service, before, share)
            if position != before:
                positions[service.name] = position
        end = LogOffset(begin.table, positions)
        self._found = (begin, end, found)
        return end.as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = self._offset(start), self._offset(end)
        if self._found is None or self._found[:2] != (begin, until):
            self._found = (begin, until, self._find(begin, until))
        stretches = self._found[2]
        return [
            partition
            for service in self.options.services
            for partition in self._packed(service, stretches.get(service.name, []))
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to release, because reading changes nothing."""

    def stop(self) -> None:
        while self._servers:
            self._servers.popitem()[1].close()

    def _advance(
        self, service: Service, start: ServicePosition, limit: int
    ) -> tuple[ServicePosition, list[Stretch]]:
        """The offset moves only if there are rows, so an idle stream has no batches."""
        server = self._server(service)
        now = server.snapshot()
        check_same_database(service.name, start, server.database, now)
        target = self._targets.get(service.name, now)
        begin = ServicePosition(server.database, NOTHING) if start.database is None else start
        if start.database is None and self.options.initial == "latest":
            server.flush()
            return begin.reached(target), []
        planner = self._planner(server)
        end, stretches = planner.onward(begin, begin.window or target, limit)
        if not stretches and begin.window is not None:
            end, stretches = planner.onward(begin.reached(begin.window), target, limit)
        if not stretches:
            return start, []
        server.flush()
        return end, stretches

    def _find(self, begin: LogOffset, end: LogOffset) -> dict[str, list[Stretch]]:
        found = {}
        for service in self.options.services:
            start, until = begin.position(service.name), end.position(service.name)
            if start == until or (start.database is None and self.options.initial == "latest"):
                continue
            server = self._server(service)
            check_same_database(service.name, until, server.database, server.snapshot())
            found[service.name] = self._planner(server).within(start, until)
        return found

    def _offset(self, found: dict[str, Any]) -> LogOffset:
        return LogOffset.from_json(found, self.options.table.name)

    def _server(self, service: Service) -> Server:
        server = self._servers.get(service.name)
        if server is None or server.is_closed:
            server = self._servers[service.name] = Server(service)
        return server
