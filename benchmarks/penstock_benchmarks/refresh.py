"""`bench refresh`: a refresh of silver and gold for 10,000 new messages, over lakes of any size."""

import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from penstock.lake.bronze import Landing
from penstock.lake.lake import Lake
from penstock.lake.refresh import refresh
from penstock.spark.java import find_java
from penstock.spark.session import spark_session
from penstock_benchmarks.lake_history import in_pieces
from penstock_benchmarks.options import Options
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings, Row
from penstock_benchmarks.scratch import Scratch

NEW_MESSAGES = 10_000
WARM_UPS = 5
ROWS_AT_ONCE = 500_000
HEADINGS = ("refresh", "land", "")
_METHOD = (
    "One lake on a local disk grows to a hundredth, a tenth and all of --messages, with a "
    "temporary PostgreSQL and Spark in this process. At each size, some turns: "
    "10,000 messages finish, they are landed, and silver and gold are refreshed. The figures are "
    "the medians of the seconds from the call of the refresh until its step is in the ledger. "
    "Five turns before the first size, and one before each, do not count."
)


@dataclass
class _Turns:
    refreshes: list[float] = field(default_factory=list)
    landings: list[float] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    most = min(options.messages, 30_000) if options.short else options.messages
    rounds = 2 if options.short else options.rounds
    sizes = [most // 100, most // 10, most]
    found: dict[int, _Turns] = {}
    progress.plan(len(sizes) * (rounds + 1) + 1)
    progress.say("starting Spark")
    spark = spark_session(
        "penstock bench refresh", {"spark.driver.memory": "3g", "spark.log.level": "ERROR"}
    )
    try:
        with TemporaryDirectory(prefix="penstock-bench-") as home:
            bench = _Bench(place, progress, Lake.open_or_create(str(Path(home) / "lake"), spark))
            for _ in range(1 if options.short else WARM_UPS):
                bench.turn(_Turns())
            for size in sizes:
                bench.grow(size)
                bench.turn(_Turns())
                found[size] = _Turns()
                for _ in range(rounds):
                    bench.turn(found[size])
                    progress.step()
    finally:
        spark.stop()
    return _findings(found)


@dataclass
class _Bench:
    place: Scratch
    progress: Progress
    lake: Lake

    def grow(self, size: int) -> None:
        """Until the lake has so many messages."""
        while (missing := size - self.lake.state().landed_rows) > 0:
            rows = min(missing, ROWS_AT_ONCE)
            self.progress.say(f"a lake of {size:,}: {missing:,} to go")
            self._finish(rows)
            self._land()
            while refresh(self.lake):
                pass
        self.progress.step()

    def turn(self, turns: _Turns) -> None:
        self.progress.say(f"{NEW_MESSAGES:,} new over {self.lake.state().landed_rows:,}")
        self._finish(NEW_MESSAGES)
        started = time.monotonic()
        self._land()
        landed = time.monotonic()
        if refresh(self.lake) is None:
            raise AssertionError("there was nothing to refresh")
        turns.landings.append(landed - started)
        turns.refreshes.append(time.monotonic() - landed)

    def _finish(self, rows: int) -> None:
        """Drop the landed history, because the next messages need the disk."""
        self.place.run("lake.forget")
        in_pieces(self.place, "lake.finished", rows)

    def _land(self) -> None:
        with closing(Landing(self.lake, {"dsn": self.place.dsn}, ROWS_AT_ONCE)) as landing:
            while batch := landing.next_batch(self.lake.state()):
                landing.land(batch)


def _findings(found: dict[int, _Turns]) -> Findings:
    medians = {size: median(turns.refreshes) for size, turns in found.items()}
    names = ("smallest", "middle", "largest")
    figures: dict[str, float | None] = {
        f"{name}_refresh_seconds": seconds
        for name, seconds in zip(names, medians.values(), strict=True)
    }
    smallest, *_, largest = medians.values()
    figures["largest_over_smallest"] = largest / smallest
    rows = [
        Row(
            f"{NEW_MESSAGES:,} new over {size:,}",
            f"{median(turns.refreshes):.2f} s",
            f"{median(turns.landings):.2f} s",
        )
        for size, turns in found.items()
    ]
    rows.append(Row("largest / smallest", f"{largest / smallest:.2f}", ""))
    samples: dict[str, Any] = {
        str(size): {"refresh": turns.refreshes, "land": turns.landings}
        for size, turns in found.items()
    }
    notes = [f"Spark ran on Java {find_java().version}"]
    return Findings(_METHOD, figures, rows, notes, samples, HEADINGS)
