"""Names that users type: the nearest known name, and patterns of queue names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from penstock.errors import InvalidValueError

_PATTERN: Final = re.compile(r"[a-z0-9._*-]{1,128}")


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'history'?`, if a name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def name_list(text: str) -> tuple[str, ...]:
    """`a, b` as ("a", "b")."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def queue_expression(patterns: Iterable[str]) -> str:
    """`orders` and `mail.*` as one regular expression of PostgreSQL. * stands for any text."""
    alternatives = []
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise InvalidValueError(
                f"queues has {pattern!r}, which no queue can match",
                hint="Allowed are names of queues, of lowercase letters, digits, - _ and ., "
                "with * for any part of a name, separated by commas.",
                field="queues",
                value=pattern,
            )
        alternatives.append(pattern.replace(".", r"\.").replace("*", ".*"))
    return f"^({'|'.join(alternatives)})$"
