"""Groups errors by kind. The parts that differ between messages are masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.model.error_masks import MASKS, TYPE
from penstock.model.monitoring import DeadError

_TYPE: Final = re.compile(TYPE)
_MASKS: Final = [(re.compile(pattern), mask) for pattern, mask in MASKS]
_ANY_MASK: Final = re.compile("(" + "|".join(sorted({mask for _, mask in MASKS})) + ")")
_EXAMPLES: Final = 3
# The database truncates errors at this length.
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """Dead letters of one queue with the same kind of error."""

    queue: str
    kind: str | None
    examples: list[str]
    error_like: str | None
    search: str | None  # a text that all of them contain
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
    return None if error is None else " ".join(_masked(error).split())[:200]


def like_of(error: str | None) -> str | None:
    """A pattern for LIKE that finds the errors of the same kind."""
    if error is None:
        return None
    parts = [re.sub(r"([\\%_])", r"\\\1", part) for part in _constants(error)]
    return "%".join(parts) + ("%" if len(error) >= _LONGEST else "")


def _masked(error: str) -> str:
    found = _TYPE.match(error)
    start = found.end() if found else 0
    text = error[start:]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return error[:start] + text


def _constants(error: str) -> list[str]:
    """The parts of an error that do not vary. Text that looks like a mask counts as one."""
    return _ANY_MASK.split(_masked(error))[::2]


def _merged(queue: str, kind: str | None, members: list[DeadError]) -> ErrorKind:
    latest = max(members, key=lambda error: error.last_id)
    newest = sorted(members, key=lambda error: -error.last_id)
    return ErrorKind(
        queue,
        kind,
        [each.error for each in newest if each.error and each.error != kind][:_EXAMPLES],
        like_of(latest.error),
        None if latest.error is None else max(_constants(latest.error), key=len).strip()[:100],
        sum(error.count for error in members),
        min(error.first_id for error in members),
        latest.last_id,
        min(error.first_dead_at for error in members),
        max(error.last_dead_at for error in members),
    )
