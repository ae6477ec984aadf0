"""The rows that one snapshot of PostgreSQL sees and an earlier one did not. No I/O.

Ids and times are assigned before commit, so the rows of a slow transaction appear behind any cursor
on them. A snapshot, however, says of each transaction whether it has ended. So the rows between two
snapshots are those of the transactions that ended between them, whenever they started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.errors import ConfigurationError


class Position(NamedTuple):
    """A position in a log, which is ordered by transaction, then by id."""

    xid: int
    id: int


BEGINNING: Final = Position(0, 0)
END: Final = Position(2**63 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`pg_snapshot`: every transaction below `xmax` has ended, except those in `running`."""

    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        try:
            xmin, xmax, running = text.split(":")
            found = frozenset(int(xid) for xid in running.split(",") if xid)
            if not int(xmin) <= int(xmax) or any(xid >= int(xmax) for xid in found):
                raise ValueError
        except ValueError:
            raise ConfigurationError(
                f"{text!r} is not a snapshot", hint="The checkpoint belongs to another source."
            ) from None
        return cls(int(xmax), found)

    def __str__(self) -> str:
        running = sorted(self.running)
        return f"{min(running, default=self.xmax)}:{self.xmax}:{','.join(map(str, running))}"


# Sees nothing, because transaction ids start at 3.
NOTHING: Final = Snapshot(1)


@dataclass(frozen=True, slots=True)
class Span:
    """Some of the transactions between two snapshots, in a form that suits an index.

    Either those in `late`, or those from `low` up to but not including `high`, except `running`.
    """

    late: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    running: tuple[int, ...] = ()

    @property
    def condition(self) -> str:
        """As SQL. It contains only our numbers and no user's text, so nothing is quoted."""
        if self.late:
            return f"xid = any ({_xids(self.late)})"
        within = f"xid >= '{self.low}'::xid8 and xid < '{self.high}'::xid8"
        return f"{within} and xid <> all ({_xids(self.running)})" if self.running else within


def between(seen: Snapshot, window: Snapshot) -> list[Span]:
    """The transactions that `window` sees and `seen` did not, in ascending order.

    A transaction that was running at `seen` is looked up by its number: a scan from the oldest of
    them on would read, while one stays open for an hour, that hour's rows again for every batch.
    """
    late = tuple(sorted(seen.running - window.running))
    running = tuple(sorted(xid for xid in window.running if xid >= seen.xmax))
    spans = [Span(late=late)] if late else []
    if window.xmax > seen.xmax:
        spans.append(Span(low=seen.xmax, high=window.xmax, running=running))
    return spans


def _xids(xids: tuple[int, ...]) -> str:
    return f"'{{{','.join(map(str, xids))}}}'::xid8[]"
