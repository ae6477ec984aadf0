"""An S3 for the tests in this folder, reached through the real S3A connector: `make test-s3`.

The S3 is moto's, in a separate process on loopback. Spark gets the jars of `make spark-jars`, so
these tests have a Spark session and a process to themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.fs as fs
import pytest

from penstock.spark.session import spark_session

ENVIRONMENT = Path(sys.prefix)
MOTO = ENVIRONMENT / "s3" / "bin" / "moto_server"
JARS = ENVIRONMENT / "spark-jars"
BUCKET = "penstock"
REASON = "needs 0.7 GB of jars and a separate Spark session: make test-s3"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not os.environ.get("PENSTOCK_TEST_S3"):
            item.add_marker(pytest.mark.skip(reason=REASON))


class Bucket:
    """The server's one bucket, as its users see it without Spark."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.files = fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            endpoint_override=endpoint,
            allow_bucket_creation=True,
        )

    def objects(self, root: str) -> dict[str, bytes]:
        """Every object below an address, by its path there."""
        base = root.removeprefix("s3a://")
        found = self.files.get_file_info(fs.FileSelector(base, recursive=True))
        return {
            each.path.removeprefix(f"{base}/"): self.read(each.path)
            for each in found
            if each.is_file
        }

    def read(self, path: str) -> bytes:
        with self.files.open_input_stream(path.removeprefix("s3a://")) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes) -> None:
        with self.files.open_output_stream(path.removeprefix("s3a://")) as stream:
            stream.write(content)

    def settings(self) -> dict[str, str]:
        """Of Spark, to reach it."""
        return {
            "spark.driver.extraClassPath": f"{JARS}/*",
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "test",
            "spark.hadoop.fs.s3a.secret.key": "test",
        }

    def delta_options(self) -> dict[str, str]:
        """Of delta-rs, to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [str(MOTO), "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            bucket = Bucket(f"http://127.0.0.1:{port}")
            bucket.files.create_dir(BUCKET)
            yield bucket
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="session")
def spark(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = spark_session(
        "penstock on S3",
        {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
            **bucket.settings(),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def root() -> str:
    return f"s3a://{BUCKET}/{uuid4().hex}"
