"""A Spark job that writes numbered rows into the queue `mail`, to be killed by a test.

Run as `python sink_driver.py DSN JOB ROWS PARTITIONS`.
"""

from __future__ import annotations

import sys

from penstock.spark.session import spark_session

if __name__ == "__main__":
    dsn, job, rows, partitions = sys.argv[1:]
    spark = spark_session("sink", {"spark.master": "local[2]", "spark.log.level": "ERROR"})
    numbers = spark.range(0, int(rows), 1, int(partitions))
    frame = numbers.selectExpr("to_json(named_struct('n', id)) as payload")
    options = {"dsn": dsn, "queue": "mail", "job": job}
    frame.write.format("penstock").options(**options).mode("append").save()
    spark.stop()
