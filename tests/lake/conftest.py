"""A real Spark in each test process, started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake.following import Stream
from tests.lake.spark_settings import FEW_ROWS

from penstock.spark.session import spark_session

Follow = Callable[..., Stream]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "penstock tests",
        {
            "spark.master": "local[2]",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home),
            **FEW_ROWS,
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def read(spark: Any, dsn: str) -> Callable[..., Any]:
    """`read(table="history")`: a DataFrame of this test's database."""

    def make(**options: str) -> Any:
        return spark.read.format("penstock").options(dsn=dsn, **options).load()

    return make


@pytest.fixture
def land(spark: Any, dsn: str, tmp_path: Path) -> Callable[..., list[Any]]:
    """Runs the stream until it has caught up, into Parquet; everything that has landed so far."""

    def run(name: str = "landed", **options: str) -> list[Any]:
        stream = spark.readStream.format("penstock").options(**{"dsn": dsn, **options}).load()
        path = str(tmp_path / name)
        (
            stream.writeStream.format("parquet")
            .option("path", path)
            .option("checkpointLocation", f"{path}.checkpoint")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        return spark.read.schema(stream.schema).parquet(path).collect()

    return run


@pytest.fixture
def follow(dsn: str) -> Iterator[Follow]:
    """`follow(table="history")`: a stream of this test's database, without a JVM."""
    streams: list[Stream] = []

    def make(**options: str) -> Stream:
        streams.append(Stream(**{"dsn": dsn, **options}))
        return streams[-1]

    yield make
    for stream in streams:
        stream.close()
