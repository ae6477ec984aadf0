"""Whole numbers that are written with a point: 30.0 is 30, in JSON and in JSON Schema.

Some languages write all numbers like this. msgspec refuses them in integer fields. Only then this
module rewrites the whole numbers of the body.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.inspect import IntType, ListType, Metadata, StructType, Type, UnionType, type_info

_encode: Final = msgspec.json.Encoder().encode


class Shape:
    """The places of whole numbers in a type: the value itself, its fields, its items."""

    def __init__(self, kind: Any) -> None:
        found = _plain(kind if isinstance(kind, Type) else type_info(kind))
        self.is_whole = isinstance(found, IntType)
        self.items = Shape(found.item_type) if isinstance(found, ListType) else None
        self.fields: dict[str, Shape] = {}
        if isinstance(found, StructType):
            shapes = {each.encode_name: Shape(each.type) for each in found.fields}
            self.fields = {name: shape for name, shape in shapes.items() if shape.matters}

    @property
    def matters(self) -> bool:
        return self.is_whole or bool(self.fields) or (self.items is not None and self.items.matters)

    def rewritten(self, raw: bytes) -> bytes:
        """The rewritten JSON. DecodeError if it is not JSON, or does not have this shape."""
        if self.is_whole:
            value = msgspec.json.decode(raw)
            return b"%d" % value if isinstance(value, float) and value.is_integer() else raw
        if self.fields and raw.lstrip()[:1] == b"{":
            parts = msgspec.json.decode(raw, type=dict[str, Raw])
            for name in parts.keys() & self.fields.keys():
                parts[name] = Raw(self.fields[name].rewritten(bytes(parts[name])))
            return _encode(parts)
        if self.items is not None and raw.lstrip()[:1] == b"[":
            items = msgspec.json.decode(raw, type=list[Raw])
            return _encode([Raw(self.items.rewritten(bytes(item))) for item in items])
        return raw


def _plain(kind: Type) -> Type:
    """The type without annotations and without None."""
    if isinstance(kind, Metadata):
        return _plain(kind.type)
    if isinstance(kind, UnionType):
        options = [_plain(each) for each in kind.types]
        return next((each for each in options if not _is_nothing(each)), options[0])
    return kind


def _is_nothing(kind: Type) -> bool:
    return type(kind).__name__ in ("NoneType", "UnsetType")
