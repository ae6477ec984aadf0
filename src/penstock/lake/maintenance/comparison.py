"""The result of comparing one day of one queue in two places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The largest number of differing rows that are named.
NAMED_ROWS: Final = 20
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Digest:
    rows: int
    checksum: int


NONE: Final = Digest(0, 0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One day of one queue. `differing` names rows that differ, by their keys, up to NAMED_ROWS."""

    table: str
    against: str
    day: str
    queue: str
    expected: Digest
    found: Digest
    differing: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.expected == self.found
