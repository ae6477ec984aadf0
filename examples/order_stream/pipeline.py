"""Your own pipeline: orders from a queue, joined with customers, into a table and another queue.

    spark-submit pipeline.py LAKE CUSTOMERS

There are two streams. Each is exactly once, so both together are:

1. The first claims from queue `orders`, looks up each customer and appends to the table
   `LAKE/orders`. An order is acked when it is in the table, and it is in the table once.
2. The second reads that table and enqueues a message into queue `mail` for every large order.

You may kill the program at any time and run it again: it continues where it stopped. The queues
are in the database of PENSTOCK_DSN. docs/tutorials/your-own-pipeline.md explains each part.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

LARGE = 100
ORDERS = (
    "id bigint, ordered_at timestamp, customer_id bigint, amount double, email string, tier string"
)
CUSTOMERS = "customer_id bigint, email string, tier string"


def with_customers(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Each order with its customer's address. An order of an unknown customer is kept."""
    order = f.parse_json("payload")
    typed = orders.select(
        "id",
        f.col("enqueued_at").alias("ordered_at"),
        f.try_variant_get(order, "$.customer_id", "bigint").alias("customer_id"),
        f.try_variant_get(order, "$.amount", "double").alias("amount"),
    )
    known = customers.select("customer_id", "email", "tier")
    joined = typed.join(f.broadcast(known), "customer_id", "left")
    return joined.select("id", "ordered_at", "customer_id", "amount", "email", "tier")


def thanks(orders: DataFrame) -> DataFrame:
    """A mail for every large order. The key prevents a second waiting mail for the same order."""
    mail = f.struct("email", "amount", f.col("id").alias("order_id"))
    large = orders.where((f.col("amount") >= LARGE) & f.col("email").isNotNull())
    return large.select(
        f.to_json(mail).alias("payload"),
        f.concat(f.lit("order-"), f.col("id")).alias("key"),
        f.when(f.col("tier") == "gold", 5).otherwise(0).alias("priority"),
    )


def land_orders(
    spark: SparkSession, lake: str, customers: DataFrame, database: dict[str, str]
) -> StreamingQuery:
    orders = spark.readStream.format("penstock").options(queue="orders", **database).load()
    return (
        with_customers(orders, customers)
        .writeStream.format("parquet")
        .option("path", f"{lake}/orders")
        .option("checkpointLocation", f"{lake}/checkpoints/orders")
        .trigger(availableNow=True)
        .start()
    )


def enqueue_thanks(spark: SparkSession, lake: str, database: dict[str, str]) -> StreamingQuery:
    orders = spark.readStream.schema(ORDERS).parquet(f"{lake}/orders")
    return (
        thanks(orders)
        .writeStream.format("penstock")
        .options(queue="mail", **database)
        .option("checkpointLocation", f"{lake}/checkpoints/thanks")
        .trigger(availableNow=True)
        .start()
    )


def run(spark: SparkSession, lake: str, customers: str, **database: str) -> None:
    """Run both streams. `dsn` is the database; by default PENSTOCK_DSN of the driver."""
    table = spark.read.csv(customers, header=True, schema=CUSTOMERS)
    land_orders(spark, lake, table, database).awaitTermination()
    enqueue_thanks(spark, lake, database).awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.appName("orders").getOrCreate(), sys.argv[1], sys.argv[2])
