"""Spark as a consumer, for the crash test: claims from a queue into a table until it is killed.

Run as `python crash_consumer.py DSN QUEUE PLACE [once] [-- LAKE COMMAND]...`. With `once` it takes
what is there, and then writes down which ids the table has, as Spark itself reads it. Commands of
`penstock lake` run in the same process and the same Spark. After `once`, they wait for a line on
stdin.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.cli.program import run
from penstock.spark.session import spark_session

SETTINGS = {
    "spark.master": "local[1]",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.codegen.wholeStage": "false",
}


def follow(spark: Any, dsn: str, queue: str, place: str, once: bool) -> Any:
    stream = spark.readStream.format("penstock").options(dsn=dsn, queue=queue)
    claimed = stream.option("max_rows_per_batch", "20000").load().select("id", "payload")
    return (
        claimed.writeStream.format("parquet")
        .option("path", f"{place}/claimed")
        .option("checkpointLocation", f"{place}/claimed.checkpoint")
        .trigger(**({"availableNow": True} if once else {"processingTime": "1 second"}))
        .start()
    )


def main(dsn: str, queue: str, place: str, *rest: str) -> int:
    once = "once" in rest[:1]
    groups = [list(words) for is_mark, words in groupby(rest, "--".__eq__) if not is_mark]
    commands = groups[1:] if once else groups
    conf = [rest[at + 1] for at, word in enumerate(rest) if word == "--conf"]
    settings = SETTINGS | dict(setting.split("=", 1) for setting in conf)
    spark = spark_session("crash", settings)
    query = follow(spark, dsn, queue, place, once)
    if commands and not once:
        return run(commands[0])
    query.awaitTermination()
    ids = [row.id for row in spark.read.parquet(f"{place}/claimed").select("id").collect()]
    Path(place, "claimed.ids").write_text("".join(f"{id}\n" for id in ids))
    print("consumed", flush=True)
    if commands:
        sys.stdin.readline()
    return next(filter(None, map(run, commands)), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
