"""The lake of a shop: what an order is, and the tables that are computed from orders.

    penstock lake run --once --project .

`penstock lake run` applies the model to every finished message of queue `orders`. An order that
fits becomes a row of the table silver_orders. Any other message goes to silver_quarantine, with
the reason. The functions below compute gold tables from these rows.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from penstock.lake.project import Project, expression, in_range, matches

CUSTOMERS = Path(__file__).with_name("customers.csv")
LARGE = 100

project = Project()

project.model(
    "orders",
    "customer_id BIGINT NOT NULL, amount DECIMAL(10,2) NOT NULL, coupon STRING",
    rules=[
        in_range("amount", 0.01, 10_000),
        matches("coupon", "^[A-Z0-9]{4,12}$", "count"),
        expression("known_state", "message_state IN ('done', 'dead')", "count"),
    ],
)


def with_customers(orders: DataFrame) -> DataFrame:
    """Each order with its customer's address. An order of an unknown customer is kept."""
    customers = orders.sparkSession.read.csv(
        str(CUSTOMERS), header=True, schema="customer_id BIGINT, email STRING, tier STRING"
    )
    return orders.join(sf.broadcast(customers), "customer_id", "left")


@project.gold(
    "revenue",
    reads="silver_orders",
    combine={"orders": "sum", "amount": "sum"},
    publish="shop.revenue",
)
def revenue(orders: DataFrame) -> DataFrame:
    """Orders and revenue by day and tier: new orders are added to the numbers of their day."""
    tier = sf.coalesce("tier", sf.lit("unknown")).alias("tier")
    return (
        with_customers(orders)
        .groupBy("day", tier)
        .agg(
            sf.count("*").alias("orders"),
            sf.sum("amount").cast("decimal(18,2)").alias("amount"),
        )
    )


@project.gold("customer_day", reads="silver_orders")
def customer_day(orders: DataFrame) -> DataFrame:
    """The orders of each customer and day. A day with new orders is computed again."""
    return orders.groupBy("day", "customer_id").agg(
        sf.count("*").alias("orders"),
        sf.max("amount").alias("largest"),
        sf.percentile_approx("amount", 0.5).alias("median"),
    )


@project.gold("large_orders", reads="silver_orders", by="row")
def large_orders(orders: DataFrame) -> DataFrame:
    """One row for each large order of a known customer."""
    large = with_customers(orders).where((sf.col("amount") >= LARGE) & sf.col("email").isNotNull())
    return large.select("day", sf.col("message_id").alias("order_id"), "email", "amount")
