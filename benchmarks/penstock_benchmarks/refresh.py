"""`bench refresh`: a refresh of silver and gold for 10,000 new messages, over lakes of any size."""

import shutil
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from penstock.lake.bronze import Landing
from penstock.lake.lake import Lake
from penstock.lake.refresh import refresh
from penstock.spark.java import find_java
from penstock.spark.session import spark_session
from penstock_benchmarks.lake_copies import copy_files
from penstock_benchmarks.lake_copies import size as lake_size
from penstock_benchmarks.lake_history import in_pieces
from penstock_benchmarks.options import Options
from penstock_benchmarks.process_costs import bytes_read, processor_seconds
from penstock_benchmarks.progress import Progress
from penstock_benchmarks.report import Findings, Row, ratio_text
from penstock_benchmarks.scratch import Scratch

NEW_MESSAGES = 10_000
# Rounds until the compilers of Java have settled.
WARM_UPS = 3
NAMES = ("smallest", "middle", "largest")
RATIOS = (
    "largest_over_smallest",
    "largest_over_smallest_processor",
    "largest_over_smallest_bytes",
)
ROWS_AT_ONCE = 500_000
HEADINGS = ("refresh", "processor", "read")
_METHOD = (
    "Three lakes on a local disk, of a hundredth, a tenth and all of --messages, with a temporary "
    "PostgreSQL and Spark in this process. The smallest is landed from PostgreSQL. The others have "
    "copies of its files with other ids, in the same day and queue. In each round 10,000 messages "
    "finish; each lake lands them and refreshes silver and gold, in turns A B C, C B A. The "
    "figures are the medians of the seconds from the call of the refresh until its step is in the "
    "ledger, of the processor time that Python and Spark use for it, and of the bytes that they "
    "read from files and pipes. The first rounds do not count."
)


@dataclass
class _Turns:
    refreshes: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)
    landings: list[float] = field(default_factory=list)


def run(place: Scratch, options: Options, progress: Progress) -> Findings:
    most = min(options.messages, 30_000) if options.short else options.messages
    rounds, warm_ups = (2, 1) if options.short else (options.rounds, WARM_UPS)
    sizes = [most // 100, most // 10, most]
    progress.plan(len(sizes) * (1 + warm_ups + rounds))
    progress.say("starting Spark")
    spark = spark_session(
        "penstock bench refresh", {"spark.driver.memory": "3g", "spark.log.level": "ERROR"}
    )
    try:
        with TemporaryDirectory(prefix="penstock-bench-") as home:
            bench = _Bench(place, progress, Path(home), spark)
            lakes = bench.lakes(sizes)
            bench.rounds(lakes, warm_ups)
            return _findings(bench.rounds(lakes, rounds))
    finally:
        spark.stop()


@dataclass
class _Bench:
    place: Scratch
    progress: Progress
    home: Path
    spark: Any

    def lakes(self, sizes: list[int]) -> dict[int, Lake]:
        """By their sizes. Each is made from the next smaller one."""
        found: dict[int, Lake] = {}
        for size in sizes:
            self.progress.say(f"a lake of {size:,}")
            root = self.home / str(size)
            if found:
                shutil.copytree(list(found.values())[-1].storage.root, root)
                found[size] = Lake.open(str(root), self.spark)
                copy_files(found[size], size - lake_size(found[size]))
            else:
                found[size] = Lake.open_or_create(str(root), self.spark)
                self._finish(size)
                self._land(found[size])
                while refresh(found[size]):
                    pass
            self.progress.step()
        return found

    def rounds(self, lakes: dict[int, Lake], count: int) -> dict[int, _Turns]:
        turns = {size: _Turns() for size in lakes}
        for number in range(count):
            self._finish(NEW_MESSAGES)
            for size in sorted(lakes, reverse=number % 2 == 1):
                self.progress.say(f"{NEW_MESSAGES:,} new over {size:,}")
                self._turn(lakes[size], turns[size])
                self.progress.step()
        return turns

    def _turn(self, lake: Lake, turns: _Turns) -> None:
        started = time.monotonic()
        self._land(lake)
        landed, used, read = time.monotonic(), processor_seconds(), bytes_read()
        if refresh(lake) is None:
            raise AssertionError("there was nothing to refresh")
        turns.landings.append(landed - started)
        turns.refreshes.append(time.monotonic() - landed)
        turns.processor.append((processor_seconds() or 0) - (used or 0))
        turns.bytes_read.append((bytes_read() or 0) - (read or 0))

    def _finish(self, rows: int) -> None:
        """Drops the history that all lakes have, because the next messages need the disk."""
        self.place.run("lake.forget")
        in_pieces(self.place, "lake.finished", rows)

    def _land(self, lake: Lake) -> None:
        with closing(Landing(lake, {"dsn": self.place.dsn}, ROWS_AT_ONCE)) as landing:
            while batch := landing.next_batch(lake.state()):
                landing.land(batch)


def _findings(found: dict[int, _Turns]) -> Findings:
    seconds = [median(turns.refreshes) for turns in found.values()]
    processor = [median(turns.processor) for turns in found.values()]
    read = [median(turns.bytes_read) for turns in found.values()]
    figures: dict[str, float | None] = {}
    for name, *costs in zip(NAMES, seconds, processor, read, strict=True):
        figures[f"{name}_refresh_seconds"] = costs[0]
        figures[f"{name}_processor_seconds"] = costs[1]
        figures[f"{name}_bytes_read"] = costs[2]
    for name, costs in zip(RATIOS, (seconds, processor, read), strict=True):
        # Zero where there is no /proc.
        figures[name] = costs[-1] / costs[0] if all(costs) else None
    rows = [
        Row(
            f"{NEW_MESSAGES:,} new over {size:,}",
            f"{median(turns.refreshes):.2f} s",
            f"{median(turns.processor):.2f} s",
            f"{median(turns.bytes_read) / 1e6:.1f} MB",
        )
        for size, turns in found.items()
    ]
    rows.append(Row("largest / smallest", *(ratio_text(figures[name]) for name in RATIOS)))
    samples: dict[str, Any] = {str(size): asdict(turns) for size, turns in found.items()}
    notes = [f"Spark ran on Java {find_java().version}"]
    return Findings(_METHOD, figures, rows, notes, samples, HEADINGS)
