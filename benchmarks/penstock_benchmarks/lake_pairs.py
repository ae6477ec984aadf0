"""The figures of `bench lake` that have two sides, each with Spark."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.lake.bronze import Landing
from penstock.lake.lake import Lake
from penstock_benchmarks.comparison import Comparison
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.lake_history import QUEUE, fill_history, in_pieces
from penstock_benchmarks.lake_jdbc import Jdbc
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.scratch import Scratch
from penstock_benchmarks.session import System

ROWS_PER_PARTITION = 50_000
# Claiming and enqueuing write, and need fewer rows to be measured well.
WRITE_SHARE = 5


@dataclass
class Pair:
    """The rates of the two sides of a figure."""

    left: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return Comparison(tuple(self.left), tuple(self.right)).ratio


@dataclass
class Pairs:
    place: Scratch
    spark: Any
    jdbc: Jdbc
    home: Path
    progress: Progress
    messages: int
    rounds: int
    _runs: int = 0

    def compare(self, figure: str) -> Pair:
        left, right = {
            "land_over_jdbc": (self.land, self.land_by_jdbc),
            "claim_over_log": (self.claim, self.follow),
            "sink_over_jdbc": (self.enqueue, self.insert_by_jdbc),
        }[figure]
        if figure == "land_over_jdbc":
            fill_history(self.place, self.progress, self.messages)
        pair = Pair()
        for number in range(-1, self.rounds):
            sides = [(pair.left, left), (pair.right, right)]
            for rates, side in sides if number % 2 == 0 else reversed(sides):
                self.progress.say(f"{figure}: {side.__name__.replace('_', ' ')}")
                rate = self._rate(side)
                if number >= 0:
                    rates.append(rate)
                self.progress.step()
        return pair

    def _rate(self, side: Callable[[], tuple[int, float]]) -> float:
        self._runs += 1
        rows, seconds = side()
        return rows / seconds

    def _path(self, name: str) -> str:
        return str(self.home / f"{name}-{self._runs}")

    # Landing

    def land(self) -> tuple[int, float]:
        started, rows = time.monotonic(), 0
        lake = Lake.open_or_create(self._path("lake"), self.spark)
        with Landing(lake, {"dsn": self.place.dsn}, 500_000) as landing:
            while batch := landing.next_batch(lake.state()):
                rows += sum(file.rows for file in landing.land(batch))
        return self._counted(rows, self.messages), time.monotonic() - started

    def land_by_jdbc(self) -> tuple[int, float]:
        path, partitions = self._path("jdbc"), -(-self.messages // ROWS_PER_PARTITION)
        low, high = self.place.run("lake.first_id"), self.place.run("lake.last_id")
        started = time.monotonic()
        self.jdbc.read_history(self.spark, low, high, partitions).write.parquet(path)
        seconds = time.monotonic() - started
        rows = self.spark.read.parquet(path).count()
        return self._counted(rows, self.messages), seconds

    # Streams

    def claim(self) -> tuple[int, float]:
        self.place.run("lake.forget")
        count = self._write_count()
        in_pieces(self.place, "lake.enqueue", count)
        return self._stream({"queue": QUEUE}, count)

    def follow(self) -> tuple[int, float]:
        count = self._write_count()
        fill_history(self.place, self.progress, count)
        return self._stream({"table": "history"}, count)

    def _stream(self, options: dict[str, str], count: int) -> tuple[int, float]:
        path = self._path("stream")
        same = {"dsn": self.place.dsn, "max_rows_per_batch": "100000"}
        same["rows_per_partition"] = str(ROWS_PER_PARTITION // 2)
        started = time.monotonic()
        stream = self.spark.readStream.format("penstock").options(**same, **options).load()
        (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", f"{path}.checkpoint")
            .trigger(availableNow=True)
            .start(path)
            .awaitTermination()
        )
        seconds = time.monotonic() - started
        return self._counted(self.spark.read.parquet(path).count(), count), seconds

    # The sink

    def enqueue(self) -> tuple[int, float]:
        frame, count = self._mails(), self._write_count()
        started = time.monotonic()
        frame.write.format("penstock").options(dsn=self.place.dsn, queue=QUEUE).mode(
            "append"
        ).save()
        seconds = time.monotonic() - started
        rows = self.place.run("lake.waiting", queue=QUEUE)
        self.place.purge(System.PENSTOCK, QUEUE)
        return self._counted(rows, count), seconds

    def insert_by_jdbc(self) -> tuple[int, float]:
        self.place.run("lake.plain")
        frame, count = self._mails(), self._write_count()
        started = time.monotonic()
        self.jdbc.append(frame, "penstock_bench.sink")
        seconds = time.monotonic() - started
        rows = self.place.run("lake.plain_count")
        self.place.run("lake.empty_plain")
        return self._counted(rows, count), seconds

    def _mails(self) -> Any:
        count = self._write_count()
        partitions = max(2, -(-count // ROWS_PER_PARTITION))
        fields = "'order', id, 'amount', id % 1000 / 10.0, 'note', repeat('x', 150)"
        frame = self.spark.range(0, count, 1, partitions)
        return frame.selectExpr(f"to_json(named_struct({fields})) as payload")

    def _write_count(self) -> int:
        return max(self.messages // WRITE_SHARE, 1)

    def _counted(self, rows: int, wanted: int) -> int:
        if rows != wanted:
            raise BenchError(f"{wanted:,} rows were there, and {rows:,} arrived")
        return rows
