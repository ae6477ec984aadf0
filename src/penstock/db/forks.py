"""What a forked process must not share with its parent, above all connections.

If two processes use a connection, their statements and answers are mixed, and one of them closes it
for both. Objects that hold connections register here. In a child process they drop them without
closing them, and connect again at the next use.
"""

from __future__ import annotations

import os
from typing import Any, Final, Protocol
from weakref import WeakSet


class Holder(Protocol):
    def _after_fork(self) -> None:
        """Forget the parent's connections and locks. Runs in the child, which has one thread."""


_holders: Final[WeakSet[Holder]] = WeakSet()
_abandoned: Final[list[Any]] = []


def register(holder: Holder) -> None:
    """Have the holder's `_after_fork` called in every child process."""
    _holders.add(holder)


def abandon(*held: Any) -> None:
    """Keep the parent's objects alive: finalizers would write to the parent's sockets."""
    _abandoned.extend(held)


def _in_child() -> None:
    for holder in list(_holders):
        holder._after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
