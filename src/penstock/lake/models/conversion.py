"""Converts JSON values to Python values for Arrow. Runs in tasks."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from pyspark.sql import types as spark

Convert = Callable[[Any], Any]
_Time = TypeVar("_Time", date, datetime)
_LIMITS: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 2**7,
    spark.ShortType: 2**15,
    spark.IntegerType: 2**31,
    spark.LongType: 2**63,
}


def converter(kind: spark.DataType) -> Convert:
    """A function that raises ValueError for a value that the type cannot hold."""
    inner = _not_null(kind)
    return lambda value: None if value is None else inner(value)


def _not_null(kind: spark.DataType) -> Convert:
    if type(kind) in _LIMITS:
        return lambda value: _whole(value, kind)
    if isinstance(kind, spark.DoubleType | spark.FloatType):
        return lambda value: _float(value, kind)
    if isinstance(kind, spark.DecimalType):
        return lambda value: _decimal(value, kind)
    if isinstance(kind, spark.StructType):
        return _struct(kind)
    if isinstance(kind, spark.ArrayType):
        element = converter(kind.elementType)
        return lambda values: [element(value) for value in values]
    if isinstance(kind, spark.MapType):
        entry = converter(kind.valueType)
        return lambda found: [(key, entry(value)) for key, value in found.items()]
    return _SCALARS.get(type(kind), _text)


def _struct(kind: spark.StructType) -> Convert:
    fields = [(field.name, converter(field.dataType)) for field in kind.fields]
    return lambda found: {name: convert(found.get(name)) for name, convert in fields}


def _whole(value: Any, kind: spark.DataType) -> int:
    number = int(value)
    if number != value or not -_LIMITS[type(kind)] <= number < _LIMITS[type(kind)]:
        raise ValueError(f"{_shown(value)} does not fit {kind.simpleString()}")
    return number


def _float(value: Any, kind: spark.DataType) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{_shown(value)} does not fit {kind.simpleString()}")
    return number


def _decimal(value: Any, kind: spark.DecimalType) -> Decimal:
    try:
        number = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal(repr(value))
    except InvalidOperation:
        raise ValueError(f"{_shown(value)} is not a number") from None
    # A shift by the scale, in digits, so that a huge exponent costs nothing.
    _, digits, exponent = number.normalize().as_tuple()
    whole_digits = len(digits) + (exponent if isinstance(exponent, int) else 0)
    if not number.is_finite() or (
        number != 0 and (-int(exponent) > kind.scale or whole_digits > kind.precision - kind.scale)
    ):
        raise ValueError(f"{_shown(value)} does not fit {kind.simpleString()}")
    return Decimal(0) if number == 0 else number


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=float)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is not a boolean")
    return value


def _timestamp(value: Any) -> datetime:
    found = _iso(value, datetime.fromisoformat)
    if found.tzinfo is None:
        raise ValueError(f"{_shown(value)} has no time zone")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{_shown(value)} is not a time") from None


def _local_timestamp(value: Any) -> datetime:
    found = _iso(value, datetime.fromisoformat)
    if found.tzinfo is not None:
        raise ValueError(f"{_shown(value)} has a time zone")
    return found


def _date(value: Any) -> date:
    return _iso(value, date.fromisoformat)


def _iso(value: Any, parse: Callable[[str], _Time]) -> _Time:
    try:
        return parse(value)
    except (TypeError, ValueError):
        raise ValueError(f"{_shown(value)} is not a time") from None


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error, ValueError):
        raise ValueError(f"{_shown(value)} is not base64") from None


def _shown(value: Any) -> str:
    return _text(value)[:100]


_SCALARS: Final[dict[type[spark.DataType], Convert]] = {
    spark.BinaryType: _bytes,
    spark.BooleanType: _boolean,
    spark.DateType: _date,
    spark.TimestampType: _timestamp,
    spark.TimestampNTZType: _local_timestamp,
}
