"""Progress and logs of running tasks: collected here, and stored about once a second."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg

from penstock.commands import arguments as check
from penstock.commands.write.progress import Report, report_progress
from penstock.db.reconnecting import ReconnectingConnections
from penstock.errors import PenstockError
from penstock.tasks.context import current_delivery

logger = logging.getLogger("penstock.worker")

MAX_LINES: Final = 100
MAX_CHARACTERS: Final = 500
_EVERY_SECONDS: Final = 1.0
# Reports of more messages than this are dropped, and reports that cannot be stored for so long.
_MAX_REPORTS: Final = 10_000
_IN_STATEMENT: Final = 500


class Reports:
    """Reports that are not stored yet, at most one for each message. Thread-safe."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._lock = threading.Lock()
        self._waiting: dict[int, Report] = {}

    def progress(self, id: int, attempt: int, fraction: float, note: str | None) -> None:
        if not isinstance(fraction, int | float) or not math.isfinite(fraction):
            raise check.refuse("progress", fraction, "a number from 0 to 1")
        text = None if note is None else _storable(note)
        with self._lock:
            report = self._report(id, attempt)
            if report is not None:
                report.fraction = min(1.0, max(0.0, float(fraction)))
                report.note = report.note if text is None else text

    def log(self, id: int, attempt: int, line: str) -> None:
        text = _storable(line)
        with self._lock:
            report = self._report(id, attempt)
            if report is not None:
                report.lines.append(text)
                del report.lines[:-MAX_LINES]

    def add(self, report: Report) -> None:
        """Add what a child process has collected."""
        with self._lock:
            known = self._report(report.id, report.attempt)
            if known is not None:
                known.fraction = known.fraction if report.fraction is None else report.fraction
                known.note = known.note if report.note is None else report.note
                known.lines = [*known.lines, *report.lines][-MAX_LINES:]

    def take(self) -> list[Report]:
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
        return taken

    def _report(self, id: int, attempt: int) -> Report | None:
        report = self._waiting.get(id)
        if report is None or report.attempt != attempt:
            if len(self._waiting) >= _MAX_REPORTS:
                return None
            report = self._waiting[id] = Report(id, attempt)
            if len(self._waiting) == 1:
                self._on_first()
        return report


class ProgressReporter:
    """Stores the reports of a worker. Without reports it writes nothing."""

    def __init__(self, connection: ReconnectingConnections) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._something = asyncio.Event()
        self.reports = Reports(self._wake)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: a thread outlived the worker
            self._loop.call_soon_threadsafe(self._something.set)

    async def run(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            await self.store()
            await asyncio.sleep(_EVERY_SECONDS)

    async def store(self) -> None:
        """Store the reports. If that fails they are dropped, because the next ones are newer."""
        taken = self.reports.take()
        try:
            for start in range(0, len(taken), _IN_STATEMENT):
                await self._connection.run(report_progress(taken[start : start + _IN_STATEMENT]))
        except (PenstockError, psycopg.Error) as error:
            logger.debug("progress could not be stored: %s", error)


class TaskLogHandler(logging.Handler):
    """Adds log records that are made inside a task to its log, on the page of its message.

    `logging.getLogger().addHandler(TaskLogHandler())`
    """

    def emit(self, record: logging.LogRecord) -> None:
        delivery: Any = current_delivery.get()
        if delivery is not None:
            try:
                delivery.log(self.format(record))
            except Exception:
                self.handleError(record)


def _storable(text: Any) -> str:
    """Text that PostgreSQL can store, cut to a maximum length."""
    cut = str(text)[:MAX_CHARACTERS].replace("\0", "")
    return cut.encode("utf-8", "replace").decode("utf-8")
