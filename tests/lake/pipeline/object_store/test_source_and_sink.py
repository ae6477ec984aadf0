"""The source and the sink on S3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.lake.pipeline.conftest import Traffic

pytestmark = pytest.mark.timeout(600)


def test_a_stream_claims_into_s3_and_the_sink_enqueues_from_there(
    traffic: Traffic, spark: Any, root: str, dsn: str, sql: Callable[..., Any]
) -> None:
    traffic.client.create_queue("orders")
    traffic.client.create_queue("mail")
    traffic.client.enqueue_many("orders", [{"n": n} for n in range(300)])
    stream = spark.readStream.format("penstock").options(dsn=dsn, queue="orders").load()
    (
        stream.writeStream.format("parquet")
        .option("path", f"{root}/orders")
        .option("checkpointLocation", f"{root}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    landed = spark.read.parquet(f"{root}/orders").select("payload")
    for _ in range(2):
        landed.write.format("penstock").options(dsn=dsn, queue="mail", job="copy").mode(
            "append"
        ).save()
    query = (
        "select count(*), count(distinct payload ->> 'n') from penstock.messages"
        " where queue = 'mail'"
    )
    assert sql(query) == [(300, 300)]
    assert sql("select repeats from penstock.spark_writes") == [(1,)]
