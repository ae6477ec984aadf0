"""Keeps a lake up to date, once or on and on: lands, refreshes, publishes, compacts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from penstock.errors import DamagedFileError, DatabaseUnavailableError, LakeMismatchError
from penstock.lake.bronze import SOURCES, Landing
from penstock.lake.gold_rows import Gold
from penstock.lake.lake import Lake
from penstock.lake.maintenance.compact import compact, needs_compacting, retain
from penstock.lake.maintenance.repair import Repaired, repair
from penstock.lake.publish import publish
from penstock.lake.refresh import refresh
from penstock.lake.registry import Registry
from penstock.lake.storage.ledger import State
from penstock.spark.error_messages import TaskFailedError, explained
from penstock.spark.offsets import LogOffset
from penstock.spark.service_connection import Server

# So many small files of a day and queue are joined without being asked.
COMPACT_AT: Final = 32
LONGEST_PAUSE: Final = 30.0


@dataclass(slots=True)
class RunTotals:
    """What a run has done so far."""

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
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Events:
    """What a run reports to its observers."""

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
    _landing: Landing | None = None
    # The gold that PostgreSQL has not got yet; None: whatever it lacks.
    _unpublished: list[Gold] | None = None
    _refresh_at: float = 0.0

    def begin(self, *, anew: bool = False) -> None:
        """Registers the lake, and finishes what a killed run left."""
        with explained(self.lake.storage.root):
            self.registry.register(self.lake.storage.root, self.lake.about.format)
            state = self.lake.ledger.settle()
            if anew:
                self.registry.call("select penstock.restamp_history()")
                state = self.lake.begin_anew()
            self._check_database(state)
            self.lake.clear_staging()
            self.registry.landed(state)

    def once(self) -> RunTotals:
        """Everything that is there by now, up to gold."""
        started = time.monotonic()
        with explained(self.lake.storage.root):
            self.land()
            self.refresh()
        self.totals.seconds += time.monotonic() - started
        return self.totals

    def forever(self, every: float, stop: threading.Event) -> RunTotals:
        """Until it is told to stop. A database or a task that fails is tried again."""
        started, pause = time.monotonic(), every
        while not stop.is_set():
            turn = time.monotonic()
            try:
                with explained(self.lake.storage.root):
                    self.land(stop)
                    if time.monotonic() >= self._refresh_at:
                        self.refresh()
                pause = every
            except (DatabaseUnavailableError, TaskFailedError, DamagedFileError) as error:
                self.totals.failures += 1
                self.events.failed(error)
                pause = min(max(pause * 2, 1.0), LONGEST_PAUSE)
            self.totals.seconds = time.monotonic() - started
            self.events.idle()
            stop.wait(max(turn + pause - time.monotonic(), 0.0))
        return self.totals

    def land(self, stop: threading.Event | None = None) -> None:
        """Lands batch after batch, until there is nothing left."""
        if self._landing is None:
            self._landing = Landing(self.lake, dict(self.options), self.max_rows)
        self.events.doing("landing")
        while stop is None or not stop.is_set():
            batch = self._landing.next_batch(self.lake.state())
            if batch is None:
                return
            files = self._landing.land(batch)
            size = sum(file.bytes for file in files)
            self.registry.landed(self.lake.state(), batch.rows, size)
            self.registry.newest(self.lake.state())
            self.totals.batches += 1
            self.totals.landed_rows += batch.rows
            self.totals.landed_bytes += size
            self.totals.landed_files += len(files)
            self.events.landed(batch.rows)

    def refresh(self) -> None:
        """Silver and gold, PostgreSQL's copy of it, and compaction.

        Takes no more than about a tenth of the time. Damaged files are repaired on the way, so
        that they stop nothing but the rows that are lost.
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
        repaired = repair(self.lake, self.options["dsn"])
        if not repaired.damaged:
            raise error
        self._unpublished = None
        self.totals.repaired_files += len(repaired.damaged)
        self.totals.lost_rows += sum(lost.rows for lost in repaired.lost)
        self.events.repaired(repaired)

    def _refresh(self) -> None:
        self.events.doing("refreshing silver and gold")
        while done := refresh(self.lake):
            self.totals.silver_rows += done.rows
            self.totals.gold_days += len(done.days)
            if self._unpublished is not None:
                self._unpublished.append(done.gold)
        self.events.doing("publishing gold")
        self.totals.published_rows += publish(self.lake, self.registry, self._unpublished)
        self._unpublished = []
        if needs_compacting(self.lake.state(), COMPACT_AT):
            self.events.doing("compacting")
            self.totals.compacted_files += compact(self.lake, COMPACT_AT).before
        if self.keep:
            retain(self.lake, self.keep)

    def close(self) -> None:
        if self._landing is not None:
            self._landing.close()
            self._landing = None
        self.registry.close()

    def _check_database(self, state: State) -> None:
        """Before any work: a lake is of one database."""
        with Server(self.registry.service) as server:
            now = server.database
        for table, source in SOURCES.items():
            if not (offset := state.offsets.get(table.path)):
                continue
            place = LogOffset.from_json(offset, source.name).place(self.registry.service.name)
            if place.database not in (None, now):
                raise LakeMismatchError(
                    f"the lake at {self.lake.storage.root} was filled from another database "
                    f"({place.database}, and this is {now}): it was moved, upgraded or restored",
                    hint="Give another --path, or add --begin-anew to land all of this database "
                    "in addition to the rows that are there. Silver keeps each message once.",
                )
