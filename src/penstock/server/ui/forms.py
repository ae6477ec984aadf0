"""Inputs that several forms share, and the parsing of their values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from penstock.server.transport.problems import HttpError
from penstock.server.ui.actions import Field
from penstock.server.ui.formats import count
from penstock.server.ui.visits import Visit, refused

T = TypeVar("T")
LIMITS: Final = ("1000", "100", "10000", "100000")


def typed(visit: Visit, name: str, current: object) -> str:
    """The value of an input: the previous input if the form is shown again, or the current one."""
    if name in visit.form:
        return visit.form[name][0]
    return "" if current is None else str(current)


def name_field(visit: Visit, name: str) -> Field:
    """The name of a new object."""
    return Field(
        name=name,
        label="Name",
        value=visit.asked(name) or "",
        required=True,
        hint="1 to 128 lowercase letters, digits, and - _ .",
    )


def limit_field(visit: Visit) -> Field:
    return Field(
        name="limit",
        label="At most",
        kind="select",
        value=visit.asked("limit") or LIMITS[0],
        options=[(each, count(int(each))) for each in sorted(LIMITS, key=int)],
        hint="The rest stays. Repeat the action for more.",
    )


def limit_of(visit: Visit) -> int:
    return int(visit.asked_one("limit", LIMITS))


def whole_of(field: str, text: str | None, allowed: str) -> int | None:
    """The whole number in an input, or None if it is empty."""
    if text is None or not text.strip():
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise refused(field, text, allowed)
    return int(text)


def decimal_of(visit: Visit, name: str, default: T) -> float | T:
    """The number in an input, or the default if it is empty."""
    text = visit.asked(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise refused(name, text, "a number")
    return number


def json_of(visit: Visit, name: str) -> Any:
    """The JSON that was typed."""
    text = visit.asked(name) or "null"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise refused(name, text, "JSON, such as {} or null") from None


def require_changes(changes: Mapping[str, Any]) -> None:
    if not changes:
        raise HttpError(422, "NothingToChange", "nothing was changed")
