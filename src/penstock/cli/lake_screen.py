"""The output of `penstock lake`: progress bars and summaries."""

from __future__ import annotations

import logging
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

from penstock.cli import errors
from penstock.cli.screen import Screen, cell, duration, printable
from penstock.cli.session import Session
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.lake.maintenance.forget import Forgotten
    from penstock.lake.maintenance.repair import Lost, Repaired
    from penstock.lake.maintenance.rewrite import Rewritten
    from penstock.lake.maintenance.verify import Verification
    from penstock.lake.run import Run, RunTotals
    from penstock.lake.status import LakeStatus

LINE_SECONDS = 60.0
_log = logging.getLogger("penstock.lake")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Watch:
    """Follows a run with a bar on a terminal, a line a minute in a log, and metrics in a file."""

    def __init__(
        self, session: Session, run: Run, metrics_file: Path | None, *, logs: bool = False
    ) -> None:
        """`logs`: each step is logged, so there is no bar."""
        self._session = session
        self._logs = logs
        self._run = run
        self._metrics_file = metrics_file
        self._progress = _progress(session, hidden=logs)
        self._bar = self._progress.add_task("starting", total=None)
        self._line_at = time.monotonic() + LINE_SECONDS
        self._shown = 0
        self._kept: dict[int, Any] = {}
        self.stopped = threading.Event()

    def __enter__(self) -> Watch:
        from penstock.lake.run import Events

        self._run.events = Events(
            self._landed, self._doing, self._failed, self._repaired, self._idle
        )
        self._kept = {each: signal.signal(each, self._stop) for each in SIGNALS}
        self._progress.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._progress.stop()
        self._write_metrics()
        for each, handler in self._kept.items():
            signal.signal(each, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first signal lets the current step finish, the second does not."""
        if self.stopped.is_set():
            raise KeyboardInterrupt
        self.stopped.set()

    def _landed(self, rows: int) -> None:
        self._progress.advance(self._bar, rows)
        self._write_metrics()

    def _doing(self, what: str) -> None:
        self._progress.update(self._bar, description=what)

    def _failed(self, error: Exception) -> None:
        problem = errors.describe(error)
        self._say(f"{problem['message']}; trying again", style="yellow")

    def _repaired(self, done: Repaired) -> None:
        for damage in done.damaged:
            self._say(f"{damage.path} {damage.reason}; repaired", style="yellow")
        for lost in done.lost:
            self._say(f"lost: {lost_text(lost)}", style="red")

    def _idle(self) -> None:
        self._progress.update(self._bar, description="waiting for more")
        self._write_metrics()
        if time.monotonic() < self._line_at or self._session.json or self._logs:
            return
        self._line_at = time.monotonic() + LINE_SECONDS
        totals = self._run.totals
        if totals.landed_rows > self._shown and not self._session.screen.err.is_terminal:
            self._say(f"{totals.landed_rows - self._shown:,} rows landed")
            self._shown = totals.landed_rows

    def _say(self, text: str, style: str = "") -> None:
        if self._logs:
            _log.warning("%s", printable(text))
            return
        now = time.strftime("%H:%M:%S")
        self._progress.console.print(Text(f"{now} {printable(text)}", style=style))

    def _write_metrics(self) -> None:
        if self._metrics_file is None:
            return
        from penstock.lake import metrics

        lag = None
        with suppress(PenstockError):
            lag = self._run.registry.lag()
        content = metrics.text(
            self._run.lake.about.name, self._run.totals, lag, self._run.steps.totals
        )
        metrics.write(self._metrics_file, content)


def _progress(session: Session, *, hidden: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=session.screen.err,
        disable=hidden or session.json or not session.screen.err.is_terminal,
        transient=True,
    )


@contextmanager
def counting(
    session: Session, what: str, total: int, *, hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar with a known end."""
    with _progress(session, hidden=hidden) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda count: progress.advance(bar, count)


@contextmanager
def in_parts(
    session: Session, verb: str, *, hidden: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """A bar of the parts of a command, such as its tables."""
    with _progress(session, hidden=hidden) as progress:
        bar = progress.add_task(verb, total=None)

        def begin(part: str, done: int, total: int) -> None:
            progress.update(bar, description=f"{verb}: {part}", completed=done, total=total)

        yield begin


def show_summary(screen: Screen, totals: RunTotals) -> None:
    rate = totals.landed_rows / totals.seconds if totals.seconds else 0.0
    screen.line(
        f"{totals.landed_rows:,} rows landed in {duration(totals.seconds)} ({rate:,.0f} a second): "
        f"{totals.landed_files:,} files, {size(totals.landed_bytes)}, {totals.batches:,} batches"
    )
    screen.line(
        f"{totals.silver_rows:,} rows new in silver, {totals.gold_days:,} days of gold counted, "
        f"{totals.published_rows:,} rows of gold published"
    )
    if totals.quarantined_rows:
        screen.line(f"{totals.quarantined_rows:,} rows went into quarantine")
    for queue, failed in sorted(totals.failed_rules.items()):
        for rule, rows in failed.items():
            screen.line(f"{rows:,} rows of queue {queue} broke rule {rule}")
    if totals.compacted_files:
        screen.line(f"{totals.compacted_files:,} small files joined")
    if totals.failures:
        screen.line(f"{totals.failures:,} attempts failed and were repeated")


def show_status(screen: Screen, status: LakeStatus) -> None:
    screen.fields(
        {
            "lake": status.name,
            "path": status.path,
            "format": status.format,
            "registered": status.registered,
            "rows not landed": _lag(status.lag_rows),
            **{
                f"lag of {layer}": duration(seconds)
                for layer, seconds in (status.lag_seconds or {}).items()
            },
            "rows not in silver": f"{status.pending_rows:,}",
            **{f"days to compute of {path}": days for path, days in status.stale_days.items()},
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


def show_verification(screen: Screen, result: Verification) -> None:
    compared = result.compared
    wrong = [each for each in compared if not each.agrees]
    for table, against in dict.fromkeys((each.table, each.against) for each in compared):
        same = [each for each in compared if each.table == table]
        bad = sum(each.table == table for each in wrong)
        verdict = f"{bad} differ from {against}" if bad else f"all agree with {against}"
        rows = sum(each.found.rows for each in same)
        screen.line(f"{table}: {rows:,} rows in {len(same)} days and queues, {verdict}")
    if not compared:
        screen.line("nothing has landed that could be compared")
    if wrong:
        screen.table(
            ["table", "day", "queue", "rows expected", "rows found", "rows that differ"],
            [
                [c.table, c.day, c.queue, c.expected.rows, c.found.rows, ", ".join(c.differing)]
                for c in wrong
            ],
        )
    for damage in result.damaged:
        screen.line(f"damaged: {damage.path} {damage.reason} ({damage.rows:,} rows)")
    if result.damaged:
        screen.line("`penstock lake repair` restores what can be restored")
        return
    sides = {each.against for each in wrong}
    if "postgresql" in sides:
        screen.line(
            "the files of bronze are as they were written, so rows of PostgreSQL have changed since"
        )
    elif sides - {"gold"}:
        screen.line("`penstock lake rebuild` recomputes silver and gold from bronze")
    elif sides:
        screen.line("`penstock lake repair` publishes gold in PostgreSQL again")


def show_repaired(screen: Screen, done: Repaired, published: int) -> None:
    for damage in done.damaged:
        screen.line(f"damaged: {damage.path} {damage.reason}")
    if not done.damaged:
        screen.line("no file is damaged")
    if published:
        screen.line(f"PostgreSQL's gold differed: {published:,} rows published again")
    if not done.damaged:
        return
    screen.line(
        f"{done.refetched:,} rows fetched from PostgreSQL, {done.restored:,} restored from silver, "
        f"{len(done.rebuilt_days):,} days of silver and gold recomputed"
    )
    screen.line(f"the damaged files are in {done.quarantine}")
    for lost in done.lost:
        screen.line(f"lost: {lost_text(lost)}")
    if not done.lost:
        screen.line("no message is lost")


def lost_text(lost: Lost) -> str:
    which = ", ".join(map(str, lost.ids)) or f"among {lost.id_min} to {lost.id_max}"
    return f"{lost.rows:,} rows of {lost.table}, {lost.day}, {lost.queue}: messages {which}"


def show_matched(screen: Screen, count: int, behind: int, unfinished: dict[str, int]) -> None:
    screen.line(f"{count} messages match")
    if behind:
        screen.line(f"{_lag(behind)} rows of history have not landed and were not searched")
    _show_unfinished(screen, unfinished)


def show_forgotten(screen: Screen, done: Forgotten) -> None:
    screen.line(
        f"{done.messages} messages erased: {done.lake_rows} rows of the lake, "
        f"{done.postgres_rows} of PostgreSQL"
    )
    if done.rewritten is not None:
        _show_rewritten(screen, done.rewritten)
    elif done.postgres_rows:
        screen.line("add --rewrite to remove their bytes from PostgreSQL's data files too")
    _show_unfinished(screen, done.unfinished)


def _show_rewritten(screen: Screen, done: Rewritten) -> None:
    screen.line(f"{done.tables} tables of PostgreSQL rewritten")
    for table, rows in done.kept.items():
        screen.line(f"{table} still has {rows:,} deleted rows that an open transaction may read")
    for table in done.locked:
        screen.line(f"{table} was not rewritten, because an open transaction uses it")
    if done.is_complete:
        screen.line("only PostgreSQL's WAL and backups may still have the bytes")
    else:
        screen.line("when these transactions have ended, run this command again")


def _show_unfinished(screen: Screen, unfinished: dict[str, int]) -> None:
    if unfinished:
        states = ", ".join(f"{count} {state}" for state, count in unfinished.items())
        screen.line(
            f"{sum(unfinished.values())} more messages match that are not finished ({states}), and "
            "stay; cancel or purge them, or wait for them, then run this command again"
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
