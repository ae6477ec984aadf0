"""Your own pipeline: orders from a queue, joined with customers, into a table and another queue.

    spark-submit pipeline.py LAKE CUSTOMERS

A stream claims from queue `orders`. For each of its batches:

1. Each order is looked up in the customers and appended to the Delta table `LAKE/orders`.
2. A message for every large order in the table is enqueued into queue `mail`.

Both writes recognise a batch that they have already, so a batch may run twice. The orders are
acked when Spark has recorded that the batch is done.

You may kill the program at any time and run it again: it continues where it stopped. The queues
are in the database of PENSTOCK_DSN. docs/tutorials/your-own-pipeline.md explains each part.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from penstock.spark.delta_batches import append_batch, stream_id

LARGE = 100
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


def process_orders(
    spark: SparkSession, lake: str, customers: DataFrame, database: dict[str, str]
) -> StreamingQuery:
    def process(batch: DataFrame, number: int) -> None:
        orders = append_batch(with_customers(batch, customers), number, f"{lake}/orders")
        mails = thanks(orders).write.format("penstock").options(queue="mail", **database)
        mails.option("job", f"thanks-{stream_id(batch)}-{number}").mode("append").save()

    orders = spark.readStream.format("penstock").options(queue="orders", **database).load()
    return (
        orders.writeStream.foreachBatch(process)
        .option("checkpointLocation", f"{lake}/checkpoints/orders")
        .trigger(availableNow=True)
        .start()
    )


def run(spark: SparkSession, lake: str, customers: str, **database: str) -> None:
    """Process what is there. `dsn` is the database; by default PENSTOCK_DSN of the driver."""
    table = spark.read.csv(customers, header=True, schema=CUSTOMERS)
    process_orders(spark, lake, table, database).awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.appName("orders").getOrCreate(), sys.argv[1], sys.argv[2])
