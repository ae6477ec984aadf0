"""Tests of the gold tables. They need Spark, but no queue and no lake: pytest."""

from datetime import date
from decimal import Decimal

import lake_project
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session("tests")


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    day = date(2026, 1, 31)
    rows = [(day, 1, 1, Decimal("150.00")), (day, 2, 2, Decimal("20.00"))]
    return spark.createDataFrame(
        rows, "day DATE, message_id BIGINT, customer_id BIGINT, amount DECIMAL(10,2)"
    )


def test_revenue_is_by_tier(orders: DataFrame) -> None:
    found = {row.tier: row.amount for row in lake_project.revenue(orders).collect()}
    assert found == {"gold": Decimal("150.00"), "silver": Decimal("20.00")}


def test_only_large_orders_are_listed(orders: DataFrame) -> None:
    assert [row.order_id for row in lake_project.large_orders(orders).collect()] == [1]
