"""The progress of a long command in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Called with the part that starts, the number of finished parts, and the number of all parts.
Observer = Callable[[str, int, int], None]


def unobserved(part: str, done: int, total: int) -> None:
    """For callers that show no progress."""


@dataclass(slots=True)
class Parts:
    """Counts the parts as they start."""

    observer: Observer
    total: int
    begun: int = 0

    def begin(self, part: str) -> None:
        self.total = max(self.total, self.begun + 1)
        self.observer(part, self.begun, self.total)
        self.begun += 1
