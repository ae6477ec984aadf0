"""Progress and logs that running tasks report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, nothing, utc
from penstock.commands.payload import encode_json
from penstock.model.progress import Progress

_REPORT: Final = call(
    "report_progress",
    ids="bigint[]",
    attempts="integer[]",
    fractions="real[]",
    notes="text[]",
    logs="jsonb",
)
_GET: Final = call("get_progress", "attempt, fraction, note, log, updated_at", id="bigint")


@dataclass(slots=True)
class Report:
    """The news of one message. None keeps the previous report."""

    id: int
    attempt: int
    fraction: float | None = None
    note: str | None = None
    lines: list[str] = field(default_factory=list)


def report_progress(reports: Sequence[Report]) -> Command[None]:
    """Store reports, at most one for each message."""
    params = {
        "ids": [each.id for each in reports],
        "attempts": [each.attempt for each in reports],
        "fractions": [each.fraction for each in reports],
        "notes": [each.note for each in reports],
        "logs": encode_json([each.lines for each in reports], "log"),
    }
    return Command(_REPORT, params, nothing)


def get_progress(id: int) -> Command[Progress | None]:
    """The report of the task of a message, or None."""

    def decode(rows: Sequence[Sequence[object]]) -> Progress | None:
        if not rows:
            return None
        attempt, fraction, note, log, updated_at = rows[0]
        return Progress(attempt, fraction, note, tuple(log), utc(updated_at))  # type: ignore[arg-type]

    return Command(_GET, {"id": check.whole("id", id, check.INT8)}, decode)
