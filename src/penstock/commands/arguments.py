"""Checks the types of arguments before they reach SQL, with errors that name the allowed values.

The database checks ranges. This module only refuses values that SQL types cannot represent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from penstock.errors import InvalidValueError
from penstock.model.message import Duration, Lease, LeaseLike


class Unset(Enum):
    """Marks an argument that was not given, where None would be a mistake."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
INT4: Final = 2**31 - 1
INT8: Final = 2**63 - 1


def refuse(field: str, value: Any, allowed: str) -> InvalidValueError:
    shown = f"{value!r:.200}"
    return InvalidValueError(
        f"{field} is {shown}; allowed: {allowed}",
        hint=f"Give {field} as {allowed}.",
        field=field,
        value=value,
        allowed=allowed,
    )


def text(field: str, value: Any) -> str:
    """Text that PostgreSQL can store."""
    if not isinstance(value, str) or "\x00" in value or not _is_unicode(value):
        raise refuse(field, value, "text, without NUL and lone surrogates")
    return value


def optional_text(field: str, value: Any) -> str | None:
    return None if value is None else text(field, value)


def note(field: str, value: Any) -> str | None:
    """The text of an error. Characters that cannot be stored are replaced, so a nack works."""
    if value is None:
        return None
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    if not isinstance(value, str):
        raise refuse(field, value, "text or an exception")
    return value.replace("\x00", "\ufffd").encode(errors="replace").decode()


def whole(field: str, value: Any, limit: int = INT4) -> int:
    # A bool is an int in Python, but True is not a valid number of messages.
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > limit:
        raise refuse(field, value, f"a whole number from -{limit} to {limit}")
    return value


def optional_whole(field: str, value: Any, limit: int = INT4) -> int | None:
    return None if value is None else whole(field, value, limit)


def optional_number(field: str, value: Any) -> Decimal | None:
    if value is None:
        return None
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    # From its text: 0.1 means 0.1, not the nearest binary fraction.
    if not number or not (exact := Decimal(str(value))).is_finite():
        raise refuse(field, value, "a number")
    return exact


def duration(field: str, value: Any) -> timedelta:
    """A timedelta, or a number of seconds."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(field, value, "a timedelta or a number of seconds")
    try:
        return timedelta(seconds=value)
    except (ValueError, OverflowError) as exc:
        raise refuse(field, value, "a duration of up to 999999999 days") from exc


def optional_duration(field: str, value: Duration | None) -> timedelta | None:
    return None if value is None else duration(field, value)


def whole_seconds(field: str, value: Duration | None) -> int | None:
    """Leases are counted in whole seconds."""
    if value is None:
        return None
    seconds = duration(field, value).total_seconds()
    if seconds != int(seconds):
        raise refuse(field, value, "a timedelta or number of whole seconds")
    return whole(field, int(seconds))


def moment(field: str, value: datetime | None) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise refuse(field, value, "a datetime with a time zone, such as datetime.now(UTC)")
    return value


def one_of(field: str, value: Any, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise refuse(field, value, ", ".join(allowed))
    return str(value)


def truth(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refuse(field, value, "True or False")
    return value


def lease(value: LeaseLike) -> tuple[int, int]:
    """The (id, token) of a lease."""
    if isinstance(value, Lease):
        return value.id, value.token
    if not isinstance(value, tuple) or len(value) != 2:
        raise refuse("lease", value, "a Lease, or a tuple (id, token)")
    return whole("id", value[0], INT8), whole("token", value[1], INT8)


def leases(values: Iterable[LeaseLike]) -> list[tuple[int, int]]:
    if not isinstance(values, Iterable):
        raise refuse("leases", values, "a list of leases")
    return [lease(value) for value in values]


def each(field: str, value: Any, count: int) -> list[Any] | None:
    """One value for all leases, or a list with one for each. None stays None."""
    if value is None:
        return None
    if isinstance(value, str | BaseException) or not isinstance(value, Sequence):
        return [value] * count
    if len(value) != count:
        raise refuse(field, value, f"one value, or {count}: one for each lease")
    return list(value)


def _is_unicode(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
