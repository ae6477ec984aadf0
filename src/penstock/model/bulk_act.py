"""Acts on all messages that match a filter. Imports no other module of Penstock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

BulkVerb = Literal["cancel", "redrive", "replay", "move", "set_priority"]
BulkStatus = Literal["pending", "running", "done", "stopped", "failed"]
STATES_OF: Final[dict[str, tuple[str, ...]]] = {
    "cancel": ("ready", "scheduled", "leased", "dead"),
    "redrive": ("dead",),
    "replay": ("finished", "done", "expired", "cancelled", "superseded"),
    "move": ("ready", "scheduled", "dead"),
    "set_priority": ("ready", "scheduled"),
}
"""The states of the messages that a verb takes."""


@dataclass(frozen=True, slots=True)
class BulkAct:
    """An act and its progress.

    Attributes:
        id: The id of the act.
        act: What is done to the messages.
        queues: The queues of the messages, or None for all.
        state: The state of the messages.
        to_queue: The queue that messages are moved or replayed into, or None.
        priority: The new priority, or None.
        per_second: The largest number of messages changed in a second, or None.
        max_count: The largest number of messages, or None.
        dry_run: Whether the messages are only counted.
        status: "pending", "running", "done", "stopped" or "failed".
        looked: The number of messages that were examined.
        matched: The number of messages that match.
        changed: The number of messages that were changed.
        error_message: The error of a failed act, or of a step that is tried again.
        created_by: The name of the operator.
        created_at: The time of the request.
        finished_at: The time of the end, or None.
        expected: The number of messages that matched at the request, which may be an estimate, or
            None if there were too many to count.
    """

    id: str
    act: BulkVerb
    queues: tuple[str, ...] | None
    state: str
    to_queue: str | None
    priority: int | None
    per_second: float | None
    max_count: int | None
    dry_run: bool
    status: BulkStatus
    looked: int
    matched: int
    changed: int
    error_message: str | None
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None
    expected: int | None

    @property
    def is_over(self) -> bool:
        return self.status not in ("pending", "running")

    @property
    def fraction(self) -> float | None:
        """The progress, from 0 to 1. None if it is not known how many messages match."""
        if self.status == "done":
            return 1.0
        if self.expected is None:
            return None
        return min(1.0, self.matched / max(1, self.expected))
