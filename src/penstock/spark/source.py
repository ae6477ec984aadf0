"""The data source `penstock` of Spark: chooses the reader or the writer for the options."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidValueError
from penstock.spark.options import SourceOptions, bad_value
from penstock.spark.schema import source_schema
from penstock.spark.table_columns import TABLES


class PenstockSource(DataSource):
    """Spark finds it where Penstock is installed: see `pyspark_penstock`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        options = SourceOptions.read(self.options)
        return source_schema(options.table.choose(options.columns), variant=options.variant)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.read(self.options)
        if options.claims:
            raise InvalidValueError(
                "a batch cannot claim, because it cannot know when its rows were stored",
                hint="Use readStream with trigger(availableNow=True), or read table messages.",
                field="queue",
            )
        if not options.table.is_log:
            from penstock.spark.snapshot_reader import FilteredSnapshotReader, SnapshotReader

            return (FilteredSnapshotReader if options.pushdown else SnapshotReader)(options, schema)
        if options.initial == "latest":
            raise bad_value("initial", "latest", "earliest or a time: a batch has no later rows")
        from penstock.spark.log_reader import FilteredLogBatchReader, LogBatchReader

        return (FilteredLogBatchReader if options.pushdown else LogBatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = SourceOptions.read(self.options)
        if options.claims:
            from penstock.spark.claim_reader import ClaimStreamReader

            return ClaimStreamReader(options, schema)
        if not options.table.is_log:
            logs = ", ".join(table.name for table in TABLES.values() if table.is_log)
            raise InvalidValueError(
                f"table {options.table.name} cannot be streamed, because its rows change",
                hint=f"Stream {logs}, or claim with queue; or read this table as a batch.",
                field="table",
            )
        from penstock.spark.log_reader import LogStreamReader

        return LogStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import BatchSink, SinkOptions

        return BatchSink(SinkOptions.read(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from penstock.spark.sink import SinkOptions, StreamSink

        # Spark passes "overwrite" for every output mode except append. Queues have no other mode.
        return StreamSink(SinkOptions.read(self.options), schema, overwrite)
