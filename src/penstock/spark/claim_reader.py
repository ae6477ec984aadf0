"""Queues claimed by a stream: messages that the sink has committed are acked, and no others.

Spark calls `latestOffset(start)` only after `start` is in its commit log, so the batch is acked
there. `commit` is called later, and never for the last batch. The tasks of a batch claim its
messages in the transaction that reads them: a task that runs again gets the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import ConfigurationError, QueueNotFoundError
from penstock.spark.arrow import arrow_session, conform
from penstock.spark.consumer import Consumer
from penstock.spark.log_pages import selected
from penstock.spark.offsets import FORMAT, START_ANEW
from penstock.spark.options import Service, SourceOptions
from penstock.spark.service_connection import Server
from penstock.spark.table_columns import CLAIMED
from penstock.spark.tasks import settle
from penstock.sql.loader import load_query

ALL: Final = 100_000_000


@dataclass(frozen=True)
class ClaimPartition(InputPartition):
    """One slice of a batch."""

    service: Service
    consumer: str
    generation: int
    tick: int
    slice: int


class ClaimStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offset is, for each service, the consumer and the number of its last batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self._servers: dict[str, Server] = {}
        self._consumers: dict[str, Consumer] = {}
        # With AvailableNow: the number of messages that may still be claimed.
        self._budgets: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_servers": {}, "_consumers": {}, "_budgets": {}}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"format": FORMAT, "claimed": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.options.max_rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        for service in self.options.services:
            self._budgets[service.name] = sum(self._ready(service, ALL).values())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        places = _places(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else ALL
        share = max(rows // len(self.options.services), 1)
        for service in self.options.services:
            place = places.get(service.name)
            if place is not None:
                self._consumer(service, place).ack(place["tick"])
            if planned := self._plan(service, place, share):
                places[service.name] = planned
        if places == _places(start):
            # No read will start from here on, so no read can overlap with settling.
            for consumer in self._consumers.values():
                consumer.settled()
        return {"format": FORMAT, "claimed": places}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, partitions = _places(start), []
        for service in self.options.services:
            place = _places(end).get(service.name)
            if place is None or place == begin.get(service.name):
                continue
            consumer, tick = self._consumer(service, place), place["tick"]
            partitions += [
                ClaimPartition(service, consumer.name, consumer.generation, tick, slice)
                for slice in range(consumer.plan(tick))
            ]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ClaimPartition):
            return
        settle()
        schema = to_arrow_schema(self.schema, timezone="UTC")
        with arrow_session(partition.service.address()) as session:
            # Committed before Spark gets a row: a message that was not claimed must not be written.
            claimed = session.table(_claim_query(partition, schema))
        for batch in claimed.to_batches():
            yield conform(batch, schema, partition.service.name)

    def commit(self, end: dict[str, Any]) -> None:
        for service in self.options.services:
            if place := _places(end).get(service.name):
                self._consumer(service, place).ack(place["tick"])

    def stop(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()
        while self._servers:
            self._servers.popitem()[1].close()

    def _plan(
        self, service: Service, place: dict[str, Any] | None, limit: int
    ) -> dict[str, Any] | None:
        """The next batch of a service, if there is anything to claim."""
        left = min(limit, self._budgets.get(service.name, limit))
        ready = self._ready(service, left) if left else {}
        consumer = self._consumers.get(service.name)
        if consumer is None:
            if not ready:
                return None
            consumer = self._consumer(service, {"consumer": self._new_name()})
        tick = (place["tick"] if place else consumer.acked) + 1
        # A batch that an earlier run planned, and did not report before it ended, comes first.
        if not ready and tick > consumer.planned:
            return None
        consumer.plan(tick, list(self._slices(ready)))
        if service.name in self._budgets:
            self._budgets[service.name] -= min(sum(ready.values()), left)
        database = self._server(service).database
        return {"database": database, "consumer": consumer.name, "tick": tick}

    def _slices(self, ready: dict[str, int]) -> Iterator[tuple[str, int]]:
        size = self.options.rows_per_partition
        for queue, count in ready.items():
            for begun in range(0, count, size):
                yield queue, min(size, count - begun)

    def _ready(self, service: Service, limit: int) -> dict[str, int]:
        """The number of messages to claim from each queue, at most `limit` in total."""
        server, ready = self._server(service), {}
        for queue in self._queues(server):
            (count,) = server.call("spark_ready", queue, limit)
            if count:
                ready[queue] = count
                limit -= count
            if limit <= 0:
                break
        return ready

    def _queues(self, server: Server) -> list[str]:
        query = "select name from penstock.queues where name ~ %s order by name"
        names = [name for (name,) in server.rows(query, self.options.queues)]
        if not names:
            raise QueueNotFoundError(
                f"service {server.service.name!r} has no queue that matches "
                f"{self.options.queues_text!r}",
                hint="Create it, or look at the names with: penstock queue list",
                queue=self.options.queues_text,
            )
        return names

    def _new_name(self) -> str:
        """The checkpoint has the name, so every checkpoint is a separate consumer."""
        stem = self.options.queues_text.split(",")[0].replace("*", "").strip("._-") or "queues"
        return self.options.consumer or f"{stem[:100]}-{uuid4().hex[:8]}"

    def _consumer(self, service: Service, place: dict[str, Any]) -> Consumer:
        server = self._server(service)
        if place.get("database", server.database) != server.database:
            raise ConfigurationError(
                f"the checkpoint belongs to another database than that of service {service.name!r}",
                hint=START_ANEW,
            )
        consumer = self._consumers.get(service.name)
        if consumer is None:
            consumer = self._consumers[service.name] = Consumer(server, place["consumer"])
            if "database" in place:
                consumer.check(place["tick"])
        return consumer

    def _server(self, service: Service) -> Server:
        server = self._servers.get(service.name)
        if server is None or server.is_closed:
            server = self._servers[service.name] = Server(service)
        return server


def _places(offset: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if offset.get("format") != FORMAT or "claimed" not in offset:
        raise ConfigurationError(
            "the checkpoint was written by another source or another version of Penstock",
            hint=START_ANEW,
        )
    return dict(offset["claimed"])


def _claim_query(partition: ClaimPartition, schema: pa.Schema) -> str:
    return load_query("spark/claim").format(
        columns=", ".join(selected(CLAIMED, schema)),
        consumer=sql.Literal(partition.consumer).as_string(None),
        generation=partition.generation,
        tick=partition.tick,
        slice=partition.slice,
    )
