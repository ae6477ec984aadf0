"""Limits on large bodies that are checked before they are decoded.

msgspec checks the length of a list after it has made all items. A body of 32 MiB has room for 11
million empty objects, which took 1,435 MB and 6 seconds. So the items of a large body are counted
first: a struct that is written as an array refuses the first item too many, and its fields are
slices of the body.

Where a type sets no length, such as for the JSON value of a schedule, all values of a large body
are counted.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, inspect

from penstock.server.transport.field_rules import allowed_values
from penstock.server.transport.problems import HttpError

# What a smaller body is decoded into has at most some 60 times its size.
LARGE_BYTES: Final = 128 * 1024
# Metadata has at most 16 KiB as PostgreSQL prints it. White space and escapes may be longer.
_OBJECT_BYTES: Final = 128 * 1024
# All fields of a struct. A list has its greatest length and the limits of its items, an object with
# any content its greatest size.
# The values of a large body whose type does not limit them. A call of `/api/verbs` that enqueues
# 10,000 messages has fewer.
MOST_VALUES: Final = 200_000
# Strings are matched only to be skipped, also one without an end.
_STRING_OR_VALUE: Final = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[,\[{]', re.DOTALL)
_Limits: TypeAlias = "dict[str, tuple[int, _Limits | None] | None]"


class BodyLimits:
    """The limits of a type of bodies."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._limits = _limits_of(inspect.type_info(kind))
        self._is_open = _is_open(inspect.type_info(kind))

    def check(self, raw: bytes) -> None:
        """Raise if the body is large, and has too many items or is not JSON."""
        if len(raw) <= LARGE_BYTES:
            return
        if self._is_open:
            _check_values(raw)
        if not any(self._limits.values()):
            return
        with suppress(msgspec.ValidationError):  # the decoder reports it better
            self._check(raw, self._limits, "")

    def _check(self, raw: bytes | Raw, limits: _Limits, path: str) -> None:
        parts = msgspec.json.decode(raw, type=_parts(tuple(limits)))
        found = {n: p for n in limits if (p := getattr(parts, n)) is not UNSET}
        # Of a field that is repeated, only the last is seen here. The decoder makes all of them.
        if len(memoryview(raw)) - sum(len(memoryview(p)) for p in found.values()) > LARGE_BYTES:
            detail = f"{path.rstrip('.') or 'the body'} has fields that are repeated or unknown"
            raise HttpError(400, "MalformedBody", detail)
        for field, part in found.items():
            limit = limits[field]
            if limit is None:
                continue
            most, item_limits = limit
            name = f"{path}{field}"
            begin = bytes(memoryview(part)[:1])
            if begin == b"{" and item_limits is None:
                if len(memoryview(part)) > most:
                    raise self._refused(name, f"{name} has more than {most} bytes")
            elif begin == b"[":
                for number, item in enumerate(self._items(part, most, name)):
                    if item_limits:
                        self._check(item, item_limits, f"{name}[{number}].")

    def _items(self, part: Raw, most: int, name: str) -> list[Raw]:
        try:
            items = msgspec.json.decode(part, type=_at_most(most))
        except msgspec.ValidationError:
            allowed = allowed_values(self._kind, name) or f"an array of at most {most} items"
            raise self._refused(name, f"{name} must be {allowed}", allowed) from None
        return [item for item in msgspec.structs.astuple(items) if item is not UNSET]

    def _refused(self, field: str, detail: str, allowed: str | None = None) -> HttpError:
        return HttpError(422, "InvalidValueError", detail, field=field, allowed=allowed)


def _limits_of(kind: inspect.Type) -> _Limits:
    found: _Limits = {}
    if isinstance(kind, inspect.Metadata):
        return _limits_of(kind.type)
    if not isinstance(kind, inspect.StructType):
        return found
    for field in kind.fields:
        found[field.encode_name] = None
        options = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for option in options:
            if isinstance(option, inspect.ListType) and option.max_length is not None:
                found[field.encode_name] = (option.max_length, _limits_of(option.item_type))
            elif isinstance(option, inspect.DictType):
                found[field.encode_name] = (_OBJECT_BYTES, None)
    return found


def _is_open(kind: inspect.Type) -> bool:
    """Whether a value of the type may have any number of other values."""
    if isinstance(kind, inspect.Metadata):
        return _is_open(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(_is_open(each) for each in kind.types)
    if isinstance(kind, inspect.StructType):
        return any(_is_open(field.type) for field in kind.fields)
    if isinstance(kind, inspect.ListType):
        return kind.max_length is None or _is_open(kind.item_type)
    return isinstance(kind, inspect.AnyType)


def _check_values(raw: bytes) -> None:
    count = 0
    for match in _STRING_OR_VALUE.finditer(raw):
        count += raw[match.start()] != _QUOTE
        if count > MOST_VALUES:
            detail = f"the body has more than {MOST_VALUES} values"
            raise HttpError(422, "InvalidValueError", detail, hint="Send less at once.")


_QUOTE: Final = ord('"')


@cache
def _parts(names: tuple[str, ...]) -> type[Struct]:
    """Slices of these fields of an object. Other fields are skipped."""
    fields = [(name, Raw | UnsetType, UNSET) for name in names]
    return msgspec.defstruct("Parts", fields)


@cache
def _at_most(count: int) -> type[Struct]:
    """An array of at most so many items."""
    fields = [(f"item_{number}", Raw | UnsetType, UNSET) for number in range(count)]
    return msgspec.defstruct("AtMost", fields, array_like=True, forbid_unknown_fields=True)
