"""API keys and the activity log of the HTTP server. Imports no other module of Penstock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, get_args

Scope: TypeAlias = Literal["read", "enqueue", "consume", "operate", "admin"]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
INTERNAL: Final = "penstock."
"""How the names of the server's own queues begin."""
# What a scope brings with it.
_INCLUDED: Final = {
    "read": ("read",),
    "enqueue": ("enqueue",),
    "consume": ("consume",),
    "operate": ("operate", "read"),
    "admin": SCOPES,
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A scope on the queues whose names match a pattern: `*` and `?` as in a shell."""

    scope: Scope
    pattern: str = "*"

    def __str__(self) -> str:
        return self.scope if self.pattern == "*" else f"{self.scope}:{self.pattern}"

    def covers(self, scope: str, queue: str | None) -> bool:
        """Whether the grant allows a scope on a queue. None stands for any queue: the result
        is filtered.
        """
        included = scope in _INCLUDED[self.scope]
        return included and (queue is None or self.pattern == "*" or self._matches(queue))

    def includes(self, other: Grant) -> bool:
        """Whether the other grant allows nothing that this one does not allow.

        False where only a comparison of all names could tell, as with brackets in a pattern.
        """
        within = set(_INCLUDED[other.scope]) <= set(_INCLUDED[self.scope])
        return within and _pattern_includes(self.pattern, other.pattern)

    def _matches(self, queue: str) -> bool:
        # Dead letters belong to their queue.
        return fnmatchcase(queue.removesuffix(".dlq"), self.pattern)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key as operators see it, without its secret."""

    id: str
    name: str
    grants: tuple[Grant, ...]
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    live: bool
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeyHash:
    """A live key as the server needs it."""

    id: str
    name: str
    secret_hash: str
    grants: tuple[Grant, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Activity:
    """One action of an operator."""

    id: int
    at: datetime
    actor: str
    act: str
    target: str | None
    details: Mapping[str, Any] = field(hash=False)
    request_id: str | None
    address: str | None


def _pattern_includes(wide: str, narrow: str) -> bool:
    """Whether every name that matches `narrow` matches `wide`."""
    if wide == "*" or wide == narrow:
        return True
    if "[" in wide + narrow:
        return False
    # Each wildcard of `narrow` stands for itself here. A question mark of `wide` is one character,
    # which no star is.
    return fnmatchcase(narrow, wide.replace("?", "[!*]"))


def parse_grants(texts: Sequence[str]) -> tuple[Grant, ...]:
    """Parse `scope` or `scope:pattern` texts. Raises ValueError with the reason."""
    return tuple(_parse(text) for text in texts)


def _parse(text: str) -> Grant:
    scope, colon, pattern = text.partition(":")
    if scope not in SCOPES or (colon and not pattern):
        raise ValueError(
            f"{text!r} is not a scope; allowed: {', '.join(SCOPES)}, each alone or with a "
            "pattern for queues, such as enqueue:orders-*"
        )
    return Grant(scope, pattern or "*")  # type: ignore[arg-type]  # one of SCOPES, as checked


def parse_roles(text: str) -> dict[str, tuple[Grant, ...]]:
    """`ops=operate; shop=operate:orders-*,read`. Raises ValueError with the reason."""
    found: dict[str, tuple[Grant, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        role, equals, scopes = part.partition("=")
        grants = parse_grants([scope.strip() for scope in scopes.split(",") if scope.strip()])
        if not role.strip() or not equals or not grants or role.strip() in found:
            raise ValueError(f"{part!r} is not a role with its scopes")
        found[role.strip()] = grants
    return found
