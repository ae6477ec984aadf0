"""A job for any Spark: reads history, claims orders and enqueues mails. Nothing here names one.

cluster_job.py DSN DIRECTORY
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession


def land(stream: Any, path: str) -> None:
    (
        stream.writeStream.format("parquet")
        .option("path", path)
        .option("checkpointLocation", f"{path}.checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main(dsn: str, directory: str) -> None:
    spark = SparkSession.builder.appName("cluster job").getOrCreate()

    def penstock(kind: Any, **options: str) -> Any:
        return kind.format("penstock").options(dsn=dsn, **options)

    claimed = penstock(spark.readStream, queue="orders", rows_per_partition="250").load()
    land(claimed, f"{directory}/orders")
    history = penstock(spark.readStream, table="history", queues="orders", rows_per_partition="250")
    land(history.load(), f"{directory}/history")
    mails = spark.read.parquet(f"{directory}/orders").select("payload").repartition(2)
    penstock(mails.write, queue="mail", job=directory).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
