"""Drives the sink as Spark does, without a JVM: the writer and its messages through pickle.

As a program, it waits before a step until it is killed: DSN JOB STEP.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark import connection_cache
from penstock.spark.source import PenstockSource

SCHEMA = StructType([StructField("payload", StringType())])


class Write:
    """A write of strings to queue mail; `epoch` and `query` make it the batch of a stream."""

    def __init__(
        self, dsn: str, *, query: str | None = None, epoch: int = 0, **options: str
    ) -> None:
        source = PenstockSource({"dsn": dsn, "queue": "mail", **options})
        self.query, self.epoch = query, epoch
        make = source.writer if query is None else source.streamWriter
        self.writer: Any = pickle.loads(pickle.dumps(make(SCHEMA, False)))
        self.messages: list[Any] = []

    def stage(self, part: int, payloads: Sequence[str]) -> Any:
        """What a task does, on another machine for all it knows."""
        task = TaskContext._getOrCreate()
        task._partitionId = part
        task._localProperties = {"sql.streaming.queryId": self.query}
        try:
            batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.string())], ["payload"])
            message = pickle.loads(pickle.dumps(self.writer)).write(iter([batch]))
        finally:
            TaskContext._setTaskContext(None)
            while connection_cache._kept:
                connection_cache._kept.popitem()[1].close()
        self.messages.append(pickle.loads(pickle.dumps(message)))
        return self.messages[-1]

    def commit(self) -> None:
        epoch = [] if self.query is None else [self.epoch]
        self.writer.commit(self.messages, *epoch)

    def abort(self) -> None:
        self.writer.abort(self.messages)

    def run(self, *parts: Sequence[str]) -> None:
        for part, payloads in enumerate(parts):
            self.stage(part, payloads)
        self.commit()


def payloads(*numbers: int) -> list[str]:
    return [json.dumps({"n": n}) for n in numbers]


def main(dsn: str, job: str, step: str) -> None:
    write = Write(dsn, **({"job": job} if job else {}))
    write.stage(0, payloads(*range(100)))
    _pause(step, "one partition staged")
    write.stage(1, payloads(*range(100, 150)))
    _pause(step, "all partitions staged")
    print("publishing", flush=True)
    write.commit()
    _pause(step, "published")


def _pause(wanted: str, step: str) -> None:
    if wanted == step:
        print(step, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
