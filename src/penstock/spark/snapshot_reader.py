"""Live messages and dead letters as a batch, as they are now. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.spark.arrow import arrow_session, conform
from penstock.spark.filters import PushesFilters
from penstock.spark.log_pages import selected
from penstock.spark.options import Service, SourceOptions
from penstock.spark.service_connection import Server, row_filter
from penstock.sql.loader import load_query


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):
    service: Service


class SnapshotReader(DataSourceReader):
    """One statement for each service, so that a message that moves is read exactly once.

    Several statements could not guarantee that, because live messages have no stable order.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.filter = row_filter(options.table, options.queues, options.initial)

    def partitions(self) -> Sequence[InputPartition]:
        for service in self.options.services:
            # The driver reports a problem of a database once.
            Server(service).close()
        return [SnapshotPartition(service) for service in self.options.services]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SnapshotPartition):
            return
        schema = to_arrow_schema(self.schema, timezone="UTC")
        query = load_query("spark/snapshot").format(
            columns=", ".join(selected(self.options.table, schema)),
            relation=self.options.table.relation,
            filter=self.filter,
        )
        with arrow_session(partition.service.address()) as session:
            for batch in session.batches(query):
                yield conform(batch, schema, partition.service.name)


class FilteredSnapshotReader(PushesFilters, SnapshotReader):
    """The same, with Spark's filters in the statement."""
