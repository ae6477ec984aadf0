"""Converts arguments of the command line to values of the library, or to a one-line error."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import click

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)")


def duration(text: str) -> timedelta:
    """Seconds, or numbers with units: `90`, `90s`, `5m`, `1h30m`, `2d`."""
    try:
        return timedelta(seconds=_seconds(text.strip().lower()))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a duration; write seconds (90) or units (90s, 5m, 1h30m, 2d)"
        ) from None


def _seconds(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise ValueError(text)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def time(text: str) -> datetime:
    """An ISO 8601 time. Without an offset, it is in this machine's time zone."""
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone() if parsed.tzinfo is None else parsed
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time; write it as 2026-01-31T08:00:00+01:00"
        ) from None


def header(text: str) -> tuple[str, str]:
    """`name=value`, where the value is text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not a header; write it as name=value")
    return name, value


def parse_json(text: str | bytes) -> Any:
    """Any JSON value. Text that is not JSON, or cannot be stored, is a ValueError in one line."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_exact)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"{error.msg[0].lower()}{error.msg[1:]} at {where}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _exact(digits: str) -> float:
    """A number is stored exactly as it was written, or refused."""
    number = float(digits)
    if Decimal(digits) != Decimal(repr(number)):
        raise ValueError(f"{digits} has too many digits: write it in quotes")
    return number
