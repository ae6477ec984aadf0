"""Formats numbers and times for people. Times name their zone: UTC, or the visitor's choice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.commands.payload import encode_deep

ZONE: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
"""The time zone of the page that is being rendered."""
_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
# The levels of a JSON value that are shown. Python's encoder can follow some 300.
DEEP: Final = 100
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def count(value: float | None) -> str:
    """1234567 as 1,234,567."""
    return "-" if value is None else f"{round(value):,}"


def short(value: float | None) -> str:
    """1234567 as 1.23 M; up to 99,999 in full."""
    if value is None:
        return "-"
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if size >= limit:
            divisor = 1e3 if unit == "k" else limit
            return f"{value / divisor:.3g} {unit}"
    return count(value) if size >= 10 or value == int(value) else f"{value:.1f}"


def size(value: float | None) -> str:
    """Bytes, in units of 1024."""
    if value is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def setting(found: Mapping[str, Any]) -> str:
    """A setting of PostgreSQL with its unit. Memory is in the usual units."""
    value, unit = found["setting"], found["unit"]
    bytes_each = {"8kB": 8192, "kB": 1024, "MB": 2**20}.get(unit or "")
    if bytes_each is not None and str(value).isdigit():
        return size(int(value) * bytes_each)
    return f"{value} {unit}" if unit else str(value)


def duration(seconds: float | None) -> str:
    """The two largest units of a duration: 3 d 4 h, 12 min 5 s, 0.25 s."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    rest = round(seconds)
    words: list[str] = []
    for length, unit in _UNITS:
        if rest >= length and len(words) < 2:
            words.append(f"{rest // length} {unit}")
            rest %= length
        elif words:
            break
    return " ".join(words)


def moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at.astimezone(ZONE.get()):%Y-%m-%d %H:%M:%S %Z}"


def instant(text: str | None) -> datetime | None:
    """A time in a JSON document of PostgreSQL."""
    return datetime.fromisoformat(text) if text else None


def zoned(at: datetime, layout: str) -> str:
    """A time in the visitor's zone."""
    return f"{at.astimezone(ZONE.get()):{layout}}"


def zone_of(name: str) -> tzinfo | None:
    """The time zone with an IANA name, or None if there is none."""
    if not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """The distance from now, past or future."""
    if at is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def is_deep(value: Any) -> bool:
    """Whether a JSON value is nested more deeply than templates and encoders can follow."""
    level = [value]
    for _ in range(DEEP):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def shallow(value: Any) -> Any:
    """The value, or its text if it is deep."""
    return encode_deep(value) if is_deep(value) else value


def pretty(value: Any) -> str:
    """JSON for display. Bytes are shown as text if possible, otherwise as hex."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        return text if "\ufffd" not in text else value[:4096].hex(" ")
    if is_deep(value):
        return encode_deep(value)
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """JSON in one line, for a cell of a table."""
    if is_deep(value):
        return encode_deep(value)
    return json.dumps(value, ensure_ascii=False, default=str)
