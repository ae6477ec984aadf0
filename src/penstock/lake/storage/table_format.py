"""The steps of every table format for a published step: move its files, then update the readers."""

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
        """Shows readers the last step of the state. It may be repeated after a crash."""

    def clear(self, table: LakeTable, settle: Callable[[], State], hours: int) -> int:
        """Deletes files that were replaced more than so many hours ago. Returns their number.

        `settle` returns the state of the lake, with its last step published.
        """

    def difference(self, table: LakeTable, state: State) -> str | None:
        """The difference between the files that readers find and those in the ledger, or None.

        It completes the name of the table to a sentence.
        """

    def restore(self, table: LakeTable, state: State, quarantine: str) -> None:
        """Shows readers the files of the ledger. Their previous metadata is moved aside."""

    def drop(self, table: LakeTable) -> None:
        """Removes a table without files in the ledger, with its replaced files."""


def move_into_place(storage: Storage, entry: Entry) -> None:
    for file in entry.add:
        # A file that is in neither place was deleted by hand. `verify` reports it and `repair`
        # restores it, so a missing file must not be an error here.
        with contextlib.suppress(FileNotFoundError):
            storage.move(f"{entry.staging}/{file.path}", file.path)


def touched_tables(entry: Entry) -> list[str]:
    """The paths of the tables that a step changes."""
    return sorted({file.table for file in entry.add} | {table_of(path) for path in entry.remove})


def difference_of(listed: Collection[str], expected: Collection[str]) -> str | None:
    """The difference of two lists of files, in words."""
    more, fewer = Counter(listed) - Counter(expected), Counter(expected) - Counter(listed)
    if not more and not fewer:
        return None
    return (
        f"shows its readers other files than the ledger has ({more.total()} too many, "
        f"{fewer.total()} missing)"
    )


def table_of(path: str) -> str:
    return "/".join(path.split("/")[:2])
