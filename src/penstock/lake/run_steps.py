"""The steps of a run for its observers: metrics, logs and lineage events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from penstock.errors import PenstockError

_log = logging.getLogger("penstock.lake")
# The steps of `lake run`. Other commands are one step each.
STEPS: Final = ("land", "recompute", "refresh", "publish", "compact", "retain", "repair")


# Called when a step has found something to do, and when it has ended (then `seconds` is set).
Observer = Callable[["RunStep", bool], None]


@dataclass(slots=True)
class RunStep:
    """One step. Its `rows` and its `inputs` and `outputs` are filled in while it runs.

    Inputs and outputs are names of tables. Outputs have the rows that they got.
    """

    name: str
    observers: Sequence[Observer] = ()
    has_begun: bool = False
    id: UUID = field(default_factory=uuid4)
    rows: int = 0
    files: int = 0
    inputs: set[str] = field(default_factory=set)
    outputs: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    # False if it has found a difference or lost rows. A step that raised has an error.
    passed: bool = True
    error: Exception | None = None

    def begin(self) -> None:
        """Reports that the step has found something to do."""
        if not self.has_begun:
            self.has_begun = True
            for observer in self.observers:
                observer(self, False)

    def wrote(self, table: str, rows: int) -> None:
        self.outputs[table] = self.outputs.get(table, 0) + rows


@dataclass(slots=True)
class StepTotals:
    done: int = 0
    failed: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class RunSteps:
    """Runs steps, and reports each to the observers."""

    observers: Sequence[Observer] = ()
    totals: dict[str, StepTotals] = field(
        default_factory=lambda: {name: StepTotals() for name in STEPS}
    )

    @contextmanager
    def step(self, name: str, *, is_lazy: bool = False) -> Iterator[RunStep]:
        """A lazy step may find nothing to do. It calls `begin` once it has found something."""
        work, started = RunStep(name, self.observers), time.monotonic()
        if not is_lazy:
            work.begin()
        try:
            yield work
        except Exception as error:
            work.error = error
            raise
        finally:
            work.seconds = time.monotonic() - started
            self._count(work)
            if work.error or work.rows or work.outputs:
                work.begin()
            if work.has_begun:
                for observer in self.observers:
                    observer(work, True)

    def _count(self, work: RunStep) -> None:
        totals = self.totals.setdefault(work.name, StepTotals())
        totals.done += work.error is None
        totals.failed += work.error is not None
        totals.rows += work.rows
        totals.seconds += work.seconds


def log_step(work: RunStep, ended: bool) -> None:
    """An observer that logs the steps that did something, and those that failed."""
    if work.error or work.outputs or work.rows:
        log_command(work, ended)


def log_command(work: RunStep, ended: bool) -> None:
    """An observer that logs the end of every step."""
    if not ended:
        return
    fields = {
        "step": work.name,
        "rows": work.rows,
        "files": work.files,
        "seconds": round(work.seconds, 3),
        "tables": work.outputs,
    }
    if work.error is not None:
        known = isinstance(work.error, PenstockError)
        reason = str(work.error) if known else f"{type(work.error).__name__}: {work.error}"
        _log.error("%s failed: %s", work.name, reason.splitlines()[0], extra=fields)
    elif not work.passed:
        _log.warning("%s found problems", work.name, extra=fields)
    else:
        _log.info("%s: %s rows", work.name, f"{work.rows:,}", extra=fields)
