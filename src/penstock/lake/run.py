"""Keeps a lake up to date, once or continuously: lands, refreshes, publishes, compacts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from penstock.errors import (
    DamagedFileError,
    DatabaseUnavailableError,
    LakeMismatchError,
    QualityError,
)
from penstock.lake.bronze import SOURCES, Landing
from penstock.lake.declarations import declare, require_transforms
from penstock.lake.declared_tables import Failures
from penstock.lake.gold_rows import Gold
from penstock.lake.lake import Lake
from penstock.lake.layout import GOLD, SILVER
from penstock.lake.lineage import POSTGRESQL
from penstock.lake.maintenance.compact import compact, needs_compacting, retain
from penstock.lake.maintenance.rebuild import recompute_stale
from penstock.lake.maintenance.repair import Repaired, repair
from penstock.lake.publish import publish
from penstock.lake.refresh import refresh
from penstock.lake.registry import Registry
from penstock.lake.run_steps import RunStep, RunSteps
from penstock.lake.storage.ledger import State
from penstock.spark.error_messages import TaskFailedError, explained
from penstock.spark.offsets import LogOffset
from penstock.spark.service_connection import Server

# The number of small files of a day and queue that are joined automatically.
COMPACT_AT: Final = 32
LONGEST_PAUSE: Final = 30.0
_RETRIED: Final = (DatabaseUnavailableError, TaskFailedError, DamagedFileError, QualityError)


@dataclass(slots=True)
class RunTotals:
    """The totals of a run."""

    batches: int = 0
    landed_rows: int = 0
    landed_bytes: int = 0
    landed_files: int = 0
    silver_rows: int = 0
    gold_days: int = 0
    published_rows: int = 0
    compacted_files: int = 0
    repaired_files: int = 0
    lost_rows: int = 0
    failures: int = 0
    # The new rows of quarantine, and the rows that broke each rule, by queue and rule.
    quarantined_rows: int = 0
    failed_rules: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: float = 0.0

    def checked(self, quarantined: int, failures: Failures) -> None:
        self.quarantined_rows += quarantined
        for (queue, rule), rows in failures.items():
            of_queue = self.failed_rules.setdefault(queue, {})
            of_queue[rule] = of_queue.get(rule, 0) + rows


@dataclass(frozen=True, slots=True)
class Events:
    """The report of a run to its observers."""

    landed: Callable[[int], None] = lambda rows: None
    doing: Callable[[str], None] = lambda what: None
    failed: Callable[[Exception], None] = lambda error: None
    repaired: Callable[[Repaired], None] = lambda repaired: None
    idle: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Run:
    """One process that works on one lake."""

    lake: Lake
    registry: Registry
    options: Mapping[str, str]
    max_rows: int = 500_000
    refresh_seconds: float = 60.0
    keep: Mapping[str, timedelta] = field(default_factory=dict)
    events: Events = field(default_factory=Events)
    totals: RunTotals = field(default_factory=RunTotals)
    steps: RunSteps = field(default_factory=RunSteps)
    _landing: Landing | None = None
    # The gold that PostgreSQL does not have yet. None: all gold that it lacks.
    _unpublished: list[Gold] | None = None
    _refresh_at: float = 0.0

    def begin(self, *, anew: bool = False) -> None:
        """Registers the lake, and completes the step of a killed run."""
        with explained(self.lake.storage.root):
            self.registry.register(self.lake.storage.root, self.lake.about.format)
            state = self.lake.ledger.settle()
            if anew:
                self.registry.call("select penstock.restamp_history()")
                state = self.lake.begin_anew()
            self._check_database(state)
            self.lake.clear_staging()
            if self.lake.project is not None:
                declare(self.lake, self.lake.project)
            require_transforms(self.lake)
            self.registry.landed(state)

    def once(self) -> RunTotals:
        """Processes all available rows, up to gold."""
        started = time.monotonic()
        with explained(self.lake.storage.root):
            self.land()
            self.refresh()
        self.totals.seconds += time.monotonic() - started
        return self.totals

    def forever(self, every: float, stop: threading.Event) -> RunTotals:
        """Runs until it is stopped. A failure of the database or of a task is retried."""
        started, pause = time.monotonic(), every
        while not stop.is_set():
            turn = time.monotonic()
            try:
                with explained(self.lake.storage.root):
                    self.land(stop)
                    if time.monotonic() >= self._refresh_at:
                        self.refresh()
                pause = every
            except _RETRIED as error:
                self.totals.failures += 1
                self.events.failed(error)
                pause = min(max(pause * 2, 1.0), LONGEST_PAUSE)
            self.totals.seconds = time.monotonic() - started
            self.events.idle()
            stop.wait(max(turn + pause - time.monotonic(), 0.0))
        return self.totals

    def land(self, stop: threading.Event | None = None) -> None:
        """Lands batch after batch until there is nothing left."""
        if self._landing is None:
            self._landing = Landing(self.lake, dict(self.options), self.max_rows)
        self.events.doing("landing")
        while stop is None or not stop.is_set():
            with self.steps.step("land", is_lazy=True) as step:
                rows = self._land_batch(self._landing, step)
            if rows is None:
                return
            self.events.landed(rows)

    def _land_batch(self, landing: Landing, step: RunStep) -> int | None:
        """The number of landed rows, or None if there was nothing to land."""
        batch = landing.next_batch(self.lake.state())
        if batch is None:
            return None
        step.inputs.update(
            self._table(f"penstock.{SOURCES[table].name}") for table, _ in batch.parts
        )
        step.begin()
        files = landing.land(batch)
        size = sum(file.bytes for file in files)
        self.registry.landed(self.lake.state(), batch.rows, size)
        self.registry.newest(self.lake.state())
        self.totals.batches += 1
        self.totals.landed_rows += batch.rows
        self.totals.landed_bytes += size
        self.totals.landed_files += len(files)
        step.rows, step.files = batch.rows, len(files)
        for file in files:
            step.wrote(file.table, file.rows)
        return batch.rows

    def refresh(self) -> None:
        """Updates silver, gold, PostgreSQL's copy of gold, and compacts.

        It takes at most about a tenth of the time. Damaged files are repaired, so that only their
        lost rows are affected.
        """
        started = time.monotonic()
        try:
            self._refresh()
        except DamagedFileError as error:
            self._repair(error)
            self._refresh()
        took = time.monotonic() - started
        self._refresh_at = time.monotonic() + max(self.refresh_seconds, 10 * took)

    def _repair(self, error: DamagedFileError) -> None:
        self.events.doing("repairing")
        with self.steps.step("repair") as step:
            repaired = repair(self.lake, self.options["dsn"])
            repaired.report(step)
        if not repaired.damaged:
            raise error
        self._unpublished = None
        self.totals.repaired_files += len(repaired.damaged)
        self.totals.lost_rows += sum(lost.rows for lost in repaired.lost)
        self.events.repaired(repaired)

    def _refresh(self) -> None:
        self._recompute()
        self._grow()
        self._publish()
        if needs_compacting(self.lake, COMPACT_AT):
            self.events.doing("compacting")
            with self.steps.step("compact") as step:
                step.files = compact(self.lake, COMPACT_AT).before
            self.totals.compacted_files += step.files
        if self.keep:
            with self.steps.step("retain", is_lazy=True) as step:
                step.files = retain(self.lake, self.keep)

    def _recompute(self) -> None:
        """Tables of the project that are new or have changed."""
        days = len({day for each in self.lake.state().stale.values() for day in each})
        self.events.doing(f"computing {days} days of declared tables" if days else "refreshing")
        while self.lake.state().stale:
            with self.steps.step("recompute") as step:
                step.inputs.update(table.path for table in SILVER)
                if rebuilt := recompute_stale(self.lake):
                    self.totals.checked(rebuilt.quarantined, rebuilt.failures)
                    step.rows, step.outputs = rebuilt.rows, rebuilt.written

    def _grow(self) -> None:
        self.events.doing("refreshing silver and gold")
        while self.lake.state().pending:
            with self.steps.step("refresh") as step:
                step.inputs.update(table.path for table in SOURCES)
                done = refresh(self.lake)
                if done is None:
                    return
                step.rows, step.files, step.outputs = done.rows, done.files, done.written
            self.totals.silver_rows += done.rows
            self.totals.gold_days += len(done.days)
            self.totals.checked(done.quarantined, done.failures)
            if self._unpublished is not None:
                self._unpublished.append(done.gold)

    def _publish(self) -> None:
        self.events.doing("publishing gold")
        with self.steps.step("publish", is_lazy=True) as step:
            step.rows = publish(self.lake, self.registry, self._unpublished, step.begin)
            if step.rows:
                step.inputs.update(table.path for table in self.lake.tables("gold"))
                own = [each.publish for each in self.lake.declared().gold if each.publish]
                for name in (*(f"penstock.{table.name}" for table in GOLD), *own):
                    step.outputs[self._table(name)] = 0
        self.totals.published_rows += step.rows
        self._unpublished = []

    def _table(self, name: str) -> str:
        """A table of PostgreSQL, as lineage events name it."""
        return f"{POSTGRESQL}:{self.registry.connection().info.dbname}.{name}"

    def close(self) -> None:
        if self._landing is not None:
            self._landing.close()
            self._landing = None
        self.registry.close()

    def _check_database(self, state: State) -> None:
        """Checks at the start that the lake belongs to this database."""
        with Server(self.registry.service) as server:
            now = server.database
        for table, source in SOURCES.items():
            if not (offset := state.offsets.get(table.path)):
                continue
            last = LogOffset.from_json(offset, source.name).position(self.registry.service.name)
            if last.database not in (None, now):
                raise LakeMismatchError(
                    f"the lake at {self.lake.storage.root} was filled from another database "
                    f"({last.database}, and this is {now}): it was moved, upgraded or restored",
                    hint="Give another --path, or add --begin-anew to land all of this database "
                    "in addition to the rows that are there. Silver keeps each message once.",
                )
