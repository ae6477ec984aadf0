"""Errors by kind: what differs from one message to the next is taken out of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.sighting import DeadError

# Quoted values, ids, numbers: the same as the lake's `error_kind` leaves out.
_VARIES: Final = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|'[^']*'|\"[^\"]*\""
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{12,}\b"
    r"|\d+(?:\.\d+)*"
)


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """Dead letters of one queue that died of the same."""

    queue: str
    kind: str | None
    example: str | None
    error_like: str | None
    search: str | None  # a part that all of them have
    count: int
    first_id: int
    last_id: int
    first_dead_at: datetime
    last_dead_at: datetime


def kinds_of(errors: Iterable[DeadError]) -> list[ErrorKind]:
    """The kinds, the most frequent first."""
    groups: dict[tuple[str, str | None], list[DeadError]] = {}
    for error in errors:
        groups.setdefault((error.queue, kind_of(error.error)), []).append(error)
    kinds = [_merged(queue, kind, members) for (queue, kind), members in groups.items()]
    return sorted(kinds, key=lambda kind: (-kind.count, kind.queue, kind.kind or ""))


def kind_of(error: str | None) -> str | None:
    return None if error is None else " ".join(_VARIES.sub("…", error).split())[:200]


def like_of(error: str | None) -> str | None:
    """A pattern for LIKE that finds the errors of the same kind."""
    if error is None:
        return None
    parts = _VARIES.split(error)
    return "%".join(re.sub(r"([\\%_])", r"\\\1", part) for part in parts) + "%"


def _constant(error: str | None) -> str | None:
    """The longest part of an error that does not vary."""
    return None if error is None else max(_VARIES.split(error), key=len).strip()[:100] or None


def _merged(queue: str, kind: str | None, members: list[DeadError]) -> ErrorKind:
    latest = max(members, key=lambda error: error.last_id)
    return ErrorKind(
        queue,
        kind,
        latest.error,
        like_of(latest.error),
        _constant(latest.error),
        sum(error.count for error in members),
        min(error.first_id for error in members),
        latest.last_id,
        min(error.first_dead_at for error in members),
        max(error.last_dead_at for error in members),
    )
