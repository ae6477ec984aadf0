"""Batches as callers see them. Imports no other module of Penstock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

BatchState: TypeAlias = Literal["open", "running", "cancelling", "finished"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How many members of a batch have ended, and how.

    Attributes:
        id: The id of the batch.
        name: The name it was given, or None.
        state: "open" while members are added, then "running", or "cancelling" after a cancel, and
            "finished" once its messages were enqueued.
        total: The number of members.
        pending: Members that have not ended.
        done: Members that are done.
        dead: Members that are dead letters.
        expired: Members whose time to live was over.
        cancelled: Members that were cancelled or purged.
        created_at: The time at which the batch was created.
        sealed_at: The time from which no members could be added, or None.
        finished_at: The time at which its messages were enqueued, or None.
        last_error: Why its messages could not be enqueued, or None.
    """

    id: int
    name: str | None
    state: BatchState
    total: int
    pending: int
    done: int
    dead: int
    expired: int
    cancelled: int
    created_at: datetime
    sealed_at: datetime | None
    finished_at: datetime | None
    last_error: str | None

    @property
    def fraction(self) -> float:
        """The part of the members that has ended, from 0 to 1."""
        return 1.0 if not self.total else (self.total - self.pending) / self.total
