"""`spark.read.format("penstock")` and its kin: which reader serves which options."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

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
        from penstock.lake.source_log import LogBatchReader

        return LogBatchReader(SourceOptions.read(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from penstock.lake.source_log import LogStreamReader

        return LogStreamReader(SourceOptions.read(self.options), schema)
