"""Appends the batches of a stream to a Delta table, each once, for `foreachBatch`.

delta-rs writes the table, so this works with every version of Spark. Delta's own connector needs a
release for each. A batch passes through the memory of the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The column that names the batch of a row.
BATCH: Final = "batch"
_QUERY_ID: Final = "sql.streaming.queryId"


def append_batch(
    rows: DataFrame, number: int, path: str, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """Appends a batch to the table at `path`, unless the table has it already.

    Returns the rows of the batch as they are in the table. What you compute from them is the same
    after a crash. The table gets a column `batch`, with the id of the stream and the number.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    stream = stream_id(rows)
    name = f"{stream}-{number}"
    options = dict(storage_options or {})
    known = DeltaTable.is_deltatable(path, options)
    table = DeltaTable(path, storage_options=options) if known else None
    done = table.transaction_version(stream) if table is not None else None
    if done is None or done < number:
        step = Transaction(app_id=stream, version=number)
        write_deltalake(
            path,
            rows.withColumn(BATCH, sf.lit(name)).toArrow(),
            mode="append",
            schema_mode="merge" if known else None,
            storage_options=options,
            commit_properties=CommitProperties(app_transactions=[step]),
        )
    table = DeltaTable(path, storage_options=options)
    return rows.sparkSession.createDataFrame(table.to_pyarrow_table(filters=[(BATCH, "=", name)]))


def stream_id(batch: DataFrame) -> str:
    """The id of the stream that a batch belongs to. It is in the checkpoint, and stays the same."""
    found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if not found:
        raise ConfigurationError(
            "this DataFrame is not a batch of a stream",
            hint="Call it from the function that foreachBatch gets.",
        )
    return str(found)
