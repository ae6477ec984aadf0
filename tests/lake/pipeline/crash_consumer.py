"""Spark as a consumer, for the crash test: claims from a queue into a table until it is killed.

Run as `python crash_consumer.py DSN QUEUE PLACE [once]`. With `once` it takes what is there, and
then writes down which ids the table has, as Spark itself reads it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from penstock.spark.session import spark_session


def follow(spark: Any, dsn: str, queue: str, place: str, once: bool) -> None:
    stream = spark.readStream.format("penstock").options(dsn=dsn, queue=queue)
    claimed = stream.option("max_rows_per_batch", "20000").load().select("id", "payload")
    (
        claimed.writeStream.format("parquet")
        .option("path", f"{place}/claimed")
        .option("checkpointLocation", f"{place}/claimed.checkpoint")
        .trigger(**({"availableNow": True} if once else {"processingTime": "1 second"}))
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    dsn, queue, place, *rest = sys.argv[1:]
    settings = {
        "spark.master": "local[1]",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.codegen.wholeStage": "false",
    }
    spark = spark_session("crash", settings)
    follow(spark, dsn, queue, place, bool(rest))
    ids = [row.id for row in spark.read.parquet(f"{place}/claimed").select("id").collect()]
    Path(place, "claimed.ids").write_text("".join(f"{id}\n" for id in ids))
