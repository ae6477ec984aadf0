"""What a process does not share with the parent that forked it: connections, above all.

A connection that two processes use mixes their questions and answers, and closing it in one ends
it for both. Objects that hold connections register here. In a child process they drop what they
hold, untouched, and connect again at their next use.
"""

from __future__ import annotations

import os
from typing import Any, Final, Protocol
from weakref import WeakSet


class Holder(Protocol):
    def _after_fork(self) -> None:
        """Forget the parent's connections and locks. Called in the child, which has one thread."""


_holders: Final[WeakSet[Holder]] = WeakSet()
_abandoned: Final[list[Any]] = []


def register(holder: Holder) -> None:
    """Have the holder's `_after_fork` called in every child process."""
    _holders.add(holder)


def abandon(*held: Any) -> None:
    """Keep the parent's objects alive: finalizing them would write to the parent's sockets."""
    _abandoned.extend(held)


def _in_child() -> None:
    for holder in list(_holders):
        holder._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork either
    os.register_at_fork(after_in_child=_in_child)
