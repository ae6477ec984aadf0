"""The source and the sink on S3, through the real S3A connector: `make test-s3`.

The S3 is moto's, in a process of its own on loopback. Spark runs in this process with the jars of
`make spark-jars`, so these tests have a process to themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.lake.pipeline.conftest import Traffic

from penstock.spark.session import spark_session

ENVIRONMENT = Path(sys.prefix)
MOTO = ENVIRONMENT / "s3" / "bin" / "moto_server"
JARS = ENVIRONMENT / "spark-jars"
BUCKET = "penstock"
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_TEST_S3"),
        reason="needs 0.7 GB of jars and a Spark session of its own: make test-s3",
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 with one bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [str(MOTO), "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _create_bucket(address)
            yield address
        finally:
            process.terminate()


def _create_bucket(address: str) -> None:
    login = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
    request = urllib.request.Request(
        f"{address}/{BUCKET}", method="PUT", headers={"Authorization": login}
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(request).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="module")
def spark(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = spark_session(
        "penstock on S3",
        {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraClassPath": f"{JARS}/*",
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "test",
            "spark.hadoop.fs.s3a.secret.key": "test",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def root() -> str:
    return f"s3a://{BUCKET}/{uuid4().hex}"


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
