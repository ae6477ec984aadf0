"""`bench lake`: Spark on Penstock beside Spark's own JDBC, in turns."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from penstock.bench.command import LAKE_FIGURES as FIGURES
from penstock.bench.comparison import Comparison
from penstock.bench.errors import BenchError
from penstock.bench.lake_jdbc import Jdbc
from penstock.bench.options import Options
from penstock.bench.progress import Progress
from penstock.bench.report import Findings, Row, rate_text, ratio_text
from penstock.bench.scratch import HISTORY_ON, Scratch
from penstock.bench.session import System
from penstock.lake.session import spark_session

QUEUE = "bench-lake"
QUEUES = {QUEUE: HISTORY_ON}
ROUNDS = 4
HEADINGS = ("Penstock", "beside it", "Penstock / beside")
ROWS_PER_PARTITION = 50_000
# Claiming and enqueuing write, and need fewer rows to be measured well.
WRITE_SHARE = 5
_PIECE = 10_000
_METHOD = (
    "Rows a second from the call to its return, Spark with all cores of the machine in one "
    "process, a PostgreSQL that is thrown away beside it, messages of about 200 bytes. land: "
    "history into Parquet, by `lake run` into bronze (by day and queue, with its ledger), and by "
    "spark.read.jdbc and write.parquet (as it comes) in as many partitions. claim: a stream that "
    "claims a queue, into Parquet, and a stream of as many rows of history, both with "
    "availableNow and the same batches. sink: a DataFrame into a queue, and by write.jdbc into a "
    "table with a primary key and nothing else, in as many partitions. In turns A B B A after "
    "one turn that does not count; each figure is the median of the ratios of neighbours."
)


@dataclass
class Pair:
    """The rates of the two sides of a figure."""

    left: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return Comparison(tuple(self.left), tuple(self.right)).ratio


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    chosen = options.only or FIGURES
    jdbc = Jdbc(place.dsn, Path(options.jdbc_jar))
    notes = [] if jdbc.jar.exists() else [jdbc.missing]
    if not jdbc.jar.exists():
        chosen = tuple(figure for figure in chosen if not figure.endswith("_over_jdbc"))
    progress.say("starting Spark")
    with _session(jdbc) as spark, tempfile.TemporaryDirectory(prefix="penstock-bench-") as home:
        bench = _Bench(place, spark, jdbc, Path(home), progress, options.messages)
        progress.plan(len(chosen) * (2 * ROUNDS + 2))
        pairs = {figure: bench.compare(figure) for figure in chosen}
    return _findings(pairs, notes)


@contextmanager
def _session(jdbc: Jdbc) -> Iterator[Any]:
    settings = {"spark.driver.memory": "3g", "spark.log.level": "ERROR"}
    if jdbc.jar.exists():
        settings["spark.driver.extraClassPath"] = str(jdbc.jar)
    spark = spark_session("penstock bench lake", settings)
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class _Bench:
    place: Scratch
    spark: Any
    jdbc: Jdbc
    home: Path
    progress: Progress
    messages: int
    _runs: int = 0

    def compare(self, figure: str) -> Pair:
        left, right = {
            "land_over_jdbc": (self.land, self.land_by_jdbc),
            "claim_over_log": (self.claim, self.follow),
            "sink_over_jdbc": (self.enqueue, self.insert_by_jdbc),
        }[figure]
        if figure == "land_over_jdbc":
            self._fill_history(self.messages)
        pair = Pair()
        for number in range(-1, ROUNDS):
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
        from penstock.lake.bronze import Landing
        from penstock.lake.lake import Lake

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
        self._in_pieces("lake.enqueue", count)
        return self._stream({"queue": QUEUE}, count)

    def follow(self) -> tuple[int, float]:
        count = self._write_count()
        self._fill_history(count)
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

    # What is there to begin with

    def _fill_history(self, count: int) -> None:
        self.progress.say(f"{count:,} rows of history")
        self.place.run("lake.forget")
        self._in_pieces("lake.finished", count)
        self.place.run("lake.analyze")

    def _in_pieces(self, name: str, count: int) -> None:
        for first in range(1, count + 1, _PIECE):
            self.place.run(name, queue=QUEUE, first=first, last=min(first + _PIECE - 1, count))

    def _write_count(self) -> int:
        return max(self.messages // WRITE_SHARE, 1)

    def _counted(self, rows: int, wanted: int) -> int:
        if rows != wanted:
            raise BenchError(f"{wanted:,} rows were there, and {rows:,} arrived")
        return rows


_TITLES = {
    "land_over_jdbc": "land history / spark.read.jdbc to Parquet",
    "claim_over_log": "claim a queue / follow history",
    "sink_over_jdbc": "enqueue a DataFrame / df.write.jdbc",
}


def _findings(pairs: dict[str, Pair], notes: list[str]) -> Findings:
    rows = [
        Row(
            _TITLES[figure],
            rate_text(median(pair.left)),
            rate_text(median(pair.right)),
            ratio_text(pair.ratio),
        )
        for figure, pair in pairs.items()
    ]
    figures = {figure: pairs[figure].ratio if figure in pairs else None for figure in FIGURES}
    samples = {figure: {"left": p.left, "right": p.right} for figure, p in pairs.items()}
    return Findings(_METHOD, figures, rows, notes, samples, HEADINGS)
