"""What a running task has reported. Imports no other module of Penstock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest report of a task.

    Attributes:
        attempt: The attempt that reported it.
        fraction: How much is done, from 0 to 1, or None.
        note: A text to show with it, or None.
        log: The last lines of its log, at most 100.
        updated_at: The time of the report.
    """

    attempt: int
    fraction: float | None
    note: str | None
    log: tuple[str, ...]
    updated_at: datetime
