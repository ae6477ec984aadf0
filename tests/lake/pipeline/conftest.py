"""A lake for each test, and messages that come to their end."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.cli.program import run
from penstock.client.sync_client import Client
from penstock.lake.bronze import Landing
from penstock.lake.lake import Lake
from penstock.lake.refresh import refresh
from penstock.lake.registry import Registry
from penstock.spark.options import Service
from penstock.testing import Clock


class Traffic:
    """A client that brings messages to their end, so that there is something to land."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def done(self, queue: str, count: int, payload: Any = None, worker: str = "w1") -> list[int]:
        """So many messages, enqueued, claimed and acked."""
        self.client.create_queue(queue, exist_ok=True)
        self.client.enqueue_many(queue, [{"n": 1} if payload is None else payload] * count)
        ids: list[int] = []
        while leases := self.client.claim(queue, 1000, worker=worker):
            ids += sorted(self.client.ack_many(leases))
        return ids

    def fails(self, queue: str, error: str, attempts: int = 1, *, ends_well: bool = True) -> int:
        """A message that fails so often, and is then done, or dead."""
        self.client.create_queue(queue, exist_ok=True)
        most = attempts + 1 if ends_well else attempts
        message = self.client.enqueue(queue, {"n": 1}, max_attempts=most)
        for _ in range(attempts):
            (lease,) = self.client.claim(queue, 1, worker="w2")
            self.client.nack(lease, error, delay=0)
        if ends_well:
            (lease,) = self.client.claim(queue, 1, worker="w2")
            self.client.ack(lease)
        return message


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as client:
        yield client


@pytest.fixture
def traffic(client: Client) -> Traffic:
    return Traffic(client)


@pytest.fixture
def one_day(dsn: str, sql: Any) -> Iterator[None]:
    """Time stands still in the database: all that is finished here is finished on one day."""
    with Clock(dsn, sql("select now()")[0][0]):
        yield


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture(params=["parquet"])
def lake(root: str, spark: Any, dsn: str, request: pytest.FixtureRequest) -> Lake:
    return Lake.open_or_create(root, spark, format=request.param, name="test", dsn=dsn)


@pytest.fixture
def land(dsn: str) -> Callable[..., int]:
    """Lands all there is; how many rows that was."""

    def all_of(lake: Lake, max_rows: int = 100_000) -> int:
        rows = 0
        with Landing(lake, {"dsn": dsn}, max_rows) as landing:
            while batch := landing.next_batch(lake.state()):
                rows += sum(file.rows for file in landing.land(batch))
        return rows

    return all_of


@pytest.fixture
def gild() -> Callable[[Lake], None]:
    """Brings silver and gold up to date."""

    def all_of(lake: Lake) -> None:
        while refresh(lake):
            pass

    return all_of


@pytest.fixture
def sql(dsn: str) -> Iterator[Callable[..., list[Any]]]:
    with psycopg.connect(dsn, autocommit=True) as connection:

        def run(query: str, *arguments: Any) -> list[Any]:
            cursor = connection.execute(query, arguments)
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def registry(dsn: str, root: str) -> Iterator[Registry]:
    """The lake's registration in PostgreSQL."""
    registry = Registry(Service("local", dsn), "test")
    registry.register(root, "parquet")
    yield registry
    registry.close()


Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(dsn: str, root: str, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Cli:
    """Runs a command line on the test's own database and lake: exit code, stdout, stderr."""
    monkeypatch.setenv("PENSTOCK_DSN", dsn)
    monkeypatch.setenv("PENSTOCK_LAKE", root)

    def call(*argv: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        capsys.readouterr()
        code = run([str(word) for word in argv])
        return code, *capsys.readouterr()

    return call
