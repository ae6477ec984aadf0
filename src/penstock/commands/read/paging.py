"""The limit on the length of a list."""

from __future__ import annotations

from typing import Final

from penstock.commands import arguments as check

MAX_LIMIT: Final = 10_000


def page_size(limit: int) -> int:
    """The limit, if it is valid for a page."""
    if not 1 <= check.whole("limit", limit) <= MAX_LIMIT:
        raise check.refuse("limit", limit, f"1 to {MAX_LIMIT}")
    return limit
