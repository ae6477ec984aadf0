"""A JSON value as a tree that folds: nested `details` elements, without a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.server.ui.formats import pretty

# A larger value is shown as text: a browser is slow with this many elements.
MOST_NODES: Final = 2000
_DEEPEST: Final = 30
_OPEN_TO: Final = 2


class _TooLargeError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Node:
    """One value. `text` is a scalar; `count` is the number of children of an object or a list."""

    name: str | None
    text: str
    count: int | None = None
    is_open: bool = False
    children: list[Node] = field(default_factory=list)


def json_tree(value: Any) -> Node | None:
    """The tree of an object or a list; None if there is nothing to fold, or too much."""
    if not isinstance(value, (Mapping, list)) or not value:
        return None
    try:
        return _node(None, value, 0, iter(range(MOST_NODES)))
    except _TooLargeError:
        return None


def _node(name: str | None, value: Any, depth: int, budget: Iterator[int]) -> Node:
    if next(budget, None) is None or depth > _DEEPEST:
        raise _TooLargeError
    if not isinstance(value, (Mapping, list)) or not value:
        return Node(name, pretty(value))
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    children = [_node(str(key), each, depth + 1, budget) for key, each in pairs]
    kind = "object" if isinstance(value, Mapping) else "list"
    return Node(name, kind, len(children), depth < _OPEN_TO, children)
