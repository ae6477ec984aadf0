"""`spark.read.format("penstock")` and its kin: which reader serves which options."""

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
from penstock.lake.options import SourceOptions


class PenstockSource(DataSource):
    """Spark finds it by itself where Penstock is installed: see `pyspark_penstock`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        options = SourceOptions.read(self.options)
        columns = options.table.choose(options.columns)
        return ", ".join(f"{column.name} {column.spark_type}" for column in columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.read(self.options)
        if options.claims:
            raise InvalidValueError(
                "a batch cannot claim: nothing would tell it that what it read was kept",
                hint="Use readStream with trigger(availableNow=True), or read table messages.",
                field="queue",
            )
        from penstock.lake.source_log import LogBatchReader

        return LogBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = SourceOptions.read(self.options)
        if options.claims:
            from penstock.lake.source_claim import ClaimStreamReader

            return ClaimStreamReader(options, schema)
        from penstock.lake.source_log import LogStreamReader

        return LogStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.lake.sink import BatchSink, SinkOptions

        return BatchSink(SinkOptions.read(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from penstock.lake.sink import SinkOptions, StreamSink

        # Spark says "overwrite" for every output mode but append, and queues know no other.
        return StreamSink(SinkOptions.read(self.options), schema, overwrite)
