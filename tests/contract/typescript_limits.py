"""The tests of the contract that do not apply to the client for TypeScript, with the reasons.

A test is named by its function, or by `function[parameters]` if it applies for other parameters.
"""

from __future__ import annotations

from typing import Any, Final

CHECKED_BY_COMPILER: Final = "the compiler checks the types of arguments, and the server the values"
LIMITS: Final[dict[str, tuple[str, ...]]] = {}
_REASONS: Final = {name: reason for reason, names in LIMITS.items() for name in names}


def reason_to_skip(node: Any) -> str | None:
    """The reason for which a test does not apply, or None if it does."""
    function = node.originalname
    parameters = node.callspec.id.split("-")
    parameters.remove("typescript")
    return _REASONS.get(function) or _REASONS.get(f"{function}[{'-'.join(parameters)}]")
