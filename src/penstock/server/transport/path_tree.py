"""Finds the endpoint of a path, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar


class Placed(Protocol):
    """An endpoint: a path such as `/api/messages/{id}/ack`, and a method."""

    @property
    def path(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def has_head(self) -> bool: ...


P = TypeVar("P", bound=Placed)


class _Node(Generic[P]):
    """The paths with a common beginning."""

    def __init__(self) -> None:
        self.parts: dict[str, _Node[P]] = {}
        self.any: _Node[P] | None = None
        self.name = ""
        self.methods: dict[str, P] = {}


class Paths(Generic[P]):
    """A literal segment is preferred to a parameter."""

    def __init__(self, places: Iterable[P]) -> None:
        self._root: _Node[P] = _Node()
        self._whole: dict[str, Mapping[str, P]] = {}
        for each in places:
            methods = self._node(each.path).methods
            methods[each.method] = each
            if each.has_head:
                # uvicorn omits the body of the response.
                methods["HEAD"] = each
            if "{" not in each.path:
                self._whole[each.path] = methods

    def find(self, path: str) -> tuple[Mapping[str, P], dict[str, str]] | None:
        """The endpoints at a path by method, and the values of its parameters."""
        whole = self._whole.get(path)
        if whole is not None:
            return whole, {}
        node, values = self._root, {}
        for part in path.split("/")[1:]:
            known = node.parts.get(part)
            if known is None:
                known = node.any
                if known is None or not part:
                    return None
                values[known.name] = part
            node = known
        return (node.methods, values) if node.methods else None

    def _node(self, path: str) -> _Node[P]:
        node = self._root
        for part in path.split("/")[1:]:
            if not part.startswith("{"):
                node = node.parts.setdefault(part, _Node())
                continue
            node.any = node.any or _Node()
            node = node.any
            assert node.name in ("", part[1:-1]), f"two names for one part of {path}"
            node.name = part[1:-1]
        return node
