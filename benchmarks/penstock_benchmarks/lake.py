"""`bench lake`: Spark on Penstock and Spark's JDBC source in turns, and the cost for the queue."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from penstock.lake.lake import Lake
from penstock.lake.registry import Registry
from penstock.lake.run import Run
from penstock.spark.java import find_java
from penstock.spark.options import Service
from penstock.spark.session import spark_session
from penstock_benchmarks.command import LAKE_FIGURES as FIGURES
from penstock_benchmarks.errors import BenchError
from penstock_benchmarks.lake_beside import queue_while_landing
from penstock_benchmarks.lake_history import fill_history
from penstock_benchmarks.lake_jdbc import Jdbc
from penstock_benchmarks.lake_latency import lake_latency
from penstock_benchmarks.lake_pairs import Pair, Pairs
from penstock_benchmarks.lake_watch import Watch, watching
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings, Row, rate_text, ratio_text
from penstock_benchmarks.scratch import Scratch

BESIDE = {"queue_while_landing", "lake_latency_p50_seconds"}
PAIRS = ("land_over_jdbc", "claim_over_log", "sink_over_jdbc")
HEADINGS = ("Penstock", "compared with", "Penstock / it")
_METHOD = (
    "Rows a second from the call to its return, Spark with all cores of the machine in one "
    "process, a temporary PostgreSQL, messages of about 200 bytes. land: "
    "history into Parquet, by `lake run` into bronze (by day and queue, with its ledger), and by "
    "spark.read.jdbc and write.parquet (as it comes) in as many partitions. claim: a stream that "
    "claims a queue, into Parquet, and a stream of as many rows of history, both with "
    "availableNow and the same batches. sink: a DataFrame into a queue, and by write.jdbc into a "
    "table with a primary key and nothing else, in as many partitions. queue: cycles of 10 by 8 "
    "clients, synchronous commit off, while Spark lands history again and again on one core at "
    "the lowest priority, and while it is idle. In turns A B B A after one turn that does not "
    "count; each of these figures is the median of the ratios of neighbours. Longest transaction: "
    "the oldest one of any session of the pipeline, looked at every 20 ms while all of this runs, "
    "and while all of history is landed and counted up to gold. Latency: `penstock lake run "
    "--every 1s`, from the commit of an ack until the message is in a file that a listing shows."
)


@dataclass(frozen=True)
class Size:
    """How much of it; `short` shows that it works, and no more."""

    messages: int
    rounds: int
    window_seconds: float
    samples: int

    @classmethod
    def of(cls, options: Options) -> "Size":
        if options.short:
            return cls(min(options.messages, 5_000), 1, 1.0, 3)
        return cls(options.messages, options.rounds, 8.0, 60)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise BenchError(f"{text!r} is not a setting of Spark; write it as spark.name=value")
    return name, value


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    chosen, size = options.only or FIGURES, Size.of(options)
    conf = dict(_setting(text) for text in options.conf)
    jdbc = Jdbc(place.dsn, Path(options.jdbc_jar))
    notes = [f"Spark ran on Java {find_java().version}"]
    progress.plan(_steps(chosen, size))
    with TemporaryDirectory(prefix="penstock-bench-") as home, watching(place.dsn) as watch:
        bench = _Bench(place, progress, Path(home), size, watch)
        bench.beside_the_queue(chosen)
        if set(chosen) - BESIDE:
            progress.say("starting Spark")
            with _session(jdbc, conf) as spark:
                bench.with_spark(chosen, spark, jdbc)
    return bench.findings(notes)


def _steps(chosen: tuple[str, ...], size: Size) -> int:
    turns = {**dict.fromkeys(PAIRS, 2 * size.rounds + 2), "queue_while_landing": 2 * size.rounds}
    return sum(turns.get(figure, 1) for figure in chosen)


@dataclass
class _Bench:
    place: Scratch
    progress: Progress
    home: Path
    size: Size
    watch: Watch
    pairs: dict[str, Pair] = field(default_factory=dict)
    landed: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def beside_the_queue(self, chosen: tuple[str, ...]) -> None:
        """The part that runs Spark in a separate process."""
        place, home, progress, size = self.place, self.home, self.progress, self.size
        if "queue_while_landing" in chosen:
            self.watch.doing("landing from a busy queue")
            sizes = (max(size.messages // 10, 1), size.rounds, size.window_seconds)
            pair, self.landed = queue_while_landing(place, home, progress, *sizes)
            self.pairs["queue_while_landing"] = pair
        if "lake_latency_p50_seconds" in chosen:
            self.watch.doing("landing every second")
            self.latencies = lake_latency(place, home, progress, size.samples)

    def with_spark(self, chosen: tuple[str, ...], spark: Any, jdbc: Jdbc) -> None:
        size = self.size
        pairs = Pairs(self.place, spark, jdbc, self.home, self.progress, size.messages, size.rounds)
        for figure in (each for each in PAIRS if each in chosen):
            self.watch.doing(figure)
            self.pairs[figure] = pairs.compare(figure)
        if "longest_snapshot_seconds" in chosen:
            self.watch.doing("landing and counting all")
            self._land_all(spark)

    def _land_all(self, spark: Any) -> None:
        """What `penstock lake run --once` does, from history to published gold."""
        fill_history(self.place, self.progress, self.size.messages)
        self.progress.say("longest_snapshot_seconds: landing and counting all")
        lake = Lake.open_or_create(str(self.home / "all"), spark)
        registry = Registry(Service("local", self.place.dsn), "bench")
        with closing(Run(lake, registry, {"dsn": self.place.dsn})) as run:
            run.begin()
            run.once()
        self.progress.step()

    def findings(self, notes: list[str]) -> Findings:
        figures: dict[str, float | None] = dict.fromkeys(FIGURES)
        figures |= {figure: pair.ratio for figure, pair in self.pairs.items()}
        figures["longest_snapshot_seconds"] = self.watch.seconds
        figures["lake_latency_p50_seconds"] = median(self.latencies) if self.latencies else None
        samples: dict[str, Any] = {
            figure: {"left": pair.left, "right": pair.right} for figure, pair in self.pairs.items()
        }
        samples["longest_transaction_seconds"] = self.watch.longest
        samples["lake_latency_seconds"] = self.latencies
        samples["landed_beside_queue"] = self.landed
        return Findings(_METHOD, figures, list(self._rows()), notes, samples, HEADINGS)

    def _rows(self) -> Iterator[Row]:
        for figure, pair in self.pairs.items():
            rates = rate_text(median(pair.left)), rate_text(median(pair.right))
            yield Row(_TITLES[figure], *rates, ratio_text(pair.ratio))
        if self.landed:
            yield Row("rows landed during the load", rate_text(median(self.landed)), "")
        for what, seconds in self.watch.longest.items():
            yield Row(f"longest transaction, {what}", f"{seconds:.2f} s", "")
        if len(self.latencies) > 1:
            yield Row("commit to bronze, p50", f"{median(self.latencies):.2f} s", "")
            worst = quantiles(self.latencies, n=20, method="inclusive")[-1]
            yield Row("commit to bronze, p95", f"{worst:.2f} s", "")


@contextmanager
def _session(jdbc: Jdbc, conf: dict[str, str]) -> Iterator[Any]:
    settings = {"spark.driver.memory": "3g", "spark.log.level": "ERROR"}
    if jdbc.jar.exists():
        settings["spark.driver.extraClassPath"] = str(jdbc.jar)
        settings["spark.executor.extraClassPath"] = str(jdbc.jar)
    spark = spark_session("penstock bench lake", settings | conf)
    try:
        yield spark
    finally:
        spark.stop()


_TITLES = {
    "land_over_jdbc": "land history / spark.read.jdbc to Parquet",
    "claim_over_log": "claim a queue / follow history",
    "sink_over_jdbc": "enqueue a DataFrame / df.write.jdbc",
    "queue_while_landing": "messages of a queue while landing / while not",
}
