"""What `penstock lake` shows: progress while it works, and a summary that a person can read."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from penstock.cli import failures
from penstock.cli.screen import Screen, cell, duration, printable
from penstock.cli.session import Session
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.lake.run import Run, Tally
    from penstock.lake.status import LakeStatus
    from penstock.lake.verify import Comparison

LINE_SECONDS = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watch:
    """Follows a run: a bar on a terminal, a line a minute in a log, metrics in a file."""

    def __init__(self, session: Session, run: Run, metrics_file: Path | None) -> None:
        self._session = session
        self._run = run
        self._metrics_file = metrics_file
        self._progress = _progress(session)
        self._bar = self._progress.add_task("starting", total=None)
        self._line_at = time.monotonic() + LINE_SECONDS
        self._shown = 0
        self._kept: dict[int, Any] = {}
        self.stopped = threading.Event()

    def __enter__(self) -> Watch:
        from penstock.lake.run import Events

        self._run.events = Events(self._landed, self._doing, self._failed, self._idle)
        self._kept = {each: signal.signal(each, self._stop) for each in SIGNALS}
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()
        self._write_metrics()
        for each, handler in self._kept.items():
            signal.signal(each, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first lets the step in work finish, the second does not."""
        if self.stopped.is_set():
            raise KeyboardInterrupt
        self.stopped.set()

    def _landed(self, rows: int) -> None:
        self._progress.advance(self._bar, rows)
        self._write_metrics()

    def _doing(self, what: str) -> None:
        self._progress.update(self._bar, description=what)

    def _failed(self, error: Exception) -> None:
        problem = failures.describe(error)
        self._say(f"{problem['message']}; trying again", style="yellow")

    def _idle(self) -> None:
        self._progress.update(self._bar, description="waiting for more")
        self._write_metrics()
        if time.monotonic() < self._line_at or self._session.json:
            return
        self._line_at = time.monotonic() + LINE_SECONDS
        tally = self._run.tally
        if tally.landed_rows > self._shown and not self._session.screen.err.is_terminal:
            self._say(f"{tally.landed_rows - self._shown:,} rows landed")
            self._shown = tally.landed_rows

    def _say(self, text: str, style: str = "") -> None:
        now = time.strftime("%H:%M:%S")
        self._progress.console.print(Text(f"{now} {printable(text)}", style=style))

    def _write_metrics(self) -> None:
        if self._metrics_file is None:
            return
        from penstock.lake import metrics

        lag = None
        with suppress(PenstockError):
            lag = self._run.registry.lag()
        content = metrics.text(self._run.lake.about.name, self._run.tally, lag)
        metrics.write(self._metrics_file, content)


def _progress(session: Session) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=session.screen.err,
        disable=session.json or not session.screen.err.is_terminal,
        transient=True,
    )


@contextmanager
def counting(session: Session, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that goes to a known end."""
    with _progress(session) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda count: progress.advance(bar, count)


def show_summary(screen: Screen, tally: Tally) -> None:
    rate = tally.landed_rows / tally.seconds if tally.seconds else 0.0
    screen.line(
        f"{tally.landed_rows:,} rows landed in {duration(tally.seconds)} ({rate:,.0f} a second): "
        f"{tally.landed_files:,} files, {size(tally.landed_bytes)}, {tally.batches:,} batches"
    )
    screen.line(
        f"{tally.silver_rows:,} rows new in silver, {tally.gold_days:,} days of gold counted, "
        f"{tally.published_rows:,} rows of gold published"
    )
    if tally.compacted_files:
        screen.line(f"{tally.compacted_files:,} small files joined")
    if tally.failures:
        screen.line(f"{tally.failures:,} turns failed, and were tried again")


def show_status(screen: Screen, status: LakeStatus) -> None:
    screen.fields(
        {
            "lake": status.name,
            "path": status.path,
            "format": status.format,
            "registered": status.registered,
            "rows not landed": _lag(status.lag_rows),
            "lag": duration(status.lag_seconds),
            "rows not in silver": f"{status.pending_rows:,}",
            "last landed": status.landed_at,
            "gold published": status.published_at,
            "verified": status.verified_at,
        }
    )
    rows = [
        [t.table, f"{t.rows:,}", f"{t.files:,}", size(t.bytes), t.first_day, t.last_day]
        for t in status.tables
    ]
    screen.table(["table", "rows", "files", "size", "first day", "last day"], rows)


def _lag(rows: int | None) -> str:
    if rows is None:
        return "?"
    return f"{rows:,}" if rows < 100_000 else "100,000 or more"


def show_comparisons(screen: Screen, comparisons: Sequence[Comparison]) -> None:
    wrong = [each for each in comparisons if not each.agrees]
    for table in dict.fromkeys(each.table for each in comparisons):
        rows = sum(each.lake.rows for each in comparisons if each.table == table)
        count = sum(each.table == table for each in comparisons)
        bad = sum(each.table == table for each in wrong)
        verdict = f"{bad} differ" if bad else "all agree"
        screen.line(f"{table}: {rows:,} rows in {count} days and queues, {verdict}")
    if not comparisons:
        screen.line("nothing has landed that PostgreSQL still has")
    if wrong:
        screen.table(
            ["table", "day", "queue", "rows in PostgreSQL", "rows in the lake"],
            [[c.table, c.day, c.queue, c.postgres.rows, c.lake.rows] for c in wrong],
        )


def show_rows(
    screen: Screen, columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int
) -> None:
    screen.table(columns, rows)
    if len(rows) == limit:
        screen.err.print(f"the first {limit:,} rows; --limit shows more")


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{cell(round(value, 1))} {unit}"
        value /= 1024
    return f"{cell(round(value, 1))} TiB"
