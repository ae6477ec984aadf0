"""Declarations of the lake's tables. Spark derives the order in which to update them.

The transformations are those of `penstock lake run`. PENSTOCK_DSN names the database of the queues.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.lake import bronze, gold, silver
from penstock.lake.layout import BRONZE_ATTEMPTS, BRONZE_HISTORY

spark = SparkSession.active()


@dp.table(partition_cols=["day", "queue"])
def bronze_history() -> DataFrame:
    log = spark.readStream.format("penstock").option("table", "history").load()
    return bronze.from_source(log, BRONZE_HISTORY)


@dp.table(partition_cols=["day", "queue"])
def bronze_attempts() -> DataFrame:
    log = spark.readStream.format("penstock").option("table", "attempts").load()
    return bronze.from_source(log, BRONZE_ATTEMPTS)


@dp.materialized_view(partition_cols=["day", "queue"])
def silver_messages() -> DataFrame:
    return silver.messages(spark.read.table("bronze_history"))


@dp.materialized_view(partition_cols=["day", "queue"])
def silver_attempts() -> DataFrame:
    return silver.attempts(spark.read.table("bronze_attempts"))


@dp.temporary_view
def events() -> DataFrame:
    return gold.events(spark.read.table("silver_messages"), spark.read.table("silver_attempts"))


@dp.materialized_view(partition_cols=["day"])
def gold_queue_minute() -> DataFrame:
    return gold.queue_minute(spark.read.table("events"))


@dp.materialized_view(partition_cols=["day"])
def gold_queue_day() -> DataFrame:
    return gold.queue_day(spark.read.table("events"))


@dp.materialized_view(partition_cols=["day"])
def gold_error_day() -> DataFrame:
    return gold.error_day(spark.read.table("events"))


@dp.materialized_view(partition_cols=["day"])
def gold_worker_minute() -> DataFrame:
    return gold.worker_minute(spark.read.table("events"))
