"""What every table format does with a decided step: move its files, then tell the readers."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

from penstock.lake.layout import LakeTable
from penstock.lake.storage.filesystem import Storage
from penstock.lake.storage.ledger import Entry, State

# Returns the table of a path such as `silver/messages`.
FindTable = Callable[[str], LakeTable]


class TableFormat(Protocol):
    """How other programs see the tables of a lake. The ledger alone decides what is in them."""

    def publish(self, state: State) -> None:
        """Shows the last step of the state to readers. Repeating it after a crash does no harm."""

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        """Deletes files that were replaced so many hours ago. Returns how many.

        `settle` returns the state of the lake, with its last step published.
        """

    def difference(self, table: LakeTable, state: State) -> str | None:
        """What other programs read of a table instead of what the ledger has; None if the same.

        It completes the name of the table to a sentence.
        """

    def restore(self, table: LakeTable, state: State, quarantine: str) -> None:
        """Shows other programs the files that the ledger has. Moves what they read before aside."""

    def drop(self, table: LakeTable) -> None:
        """Removes a table that has no files in the ledger, with the files of its past."""


def move_into_place(storage: Storage, entry: Entry) -> None:
    for file in entry.add:
        # A file that is in neither place was deleted by hand: `verify` names it, `repair` restores
        # it, and neither could if the last step had to be whole before anything else.
        with contextlib.suppress(FileNotFoundError):
            storage.move(f"{entry.staging}/{file.path}", file.path)


def touched_tables(entry: Entry) -> list[str]:
    """The paths of the tables that a step changes."""
    return sorted({file.table for file in entry.add} | {table_of(path) for path in entry.remove})


def difference_of(listed: Collection[str], expected: Collection[str]) -> str | None:
    """In words, for two lists of files."""
    more, fewer = Counter(listed) - Counter(expected), Counter(expected) - Counter(listed)
    if not more and not fewer:
        return None
    return (
        f"shows other files to its readers than the ledger has: {more.total()} too many, "
        f"{fewer.total()} missing"
    )


def table_of(path: str) -> str:
    return "/".join(path.split("/")[:2])
