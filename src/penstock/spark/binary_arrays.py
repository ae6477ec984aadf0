"""Columns of messages as PostgreSQL's arrays in binary format, built by Arrow column by column.

An array is a head and its elements, each a length and that many bytes. A null has length -1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import pack
from typing import Any, ClassVar, Final

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.adapt import Dumper
from psycopg.pq import Format

from penstock.errors import InvalidValueError

# PostgreSQL counts from 2000, Arrow from 1970.
_EPOCH_MICROSECONDS: Final = 946_684_800_000_000
# Not pa.scalar(b""), because that imports pandas, which takes a quarter of a second in each
# process.
_NOTHING: Final = pa.Array.from_buffers(
    pa.large_binary(), 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]
)[0]
_JSONB_VERSION: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class EncodedArray:
    """An array in the format that PostgreSQL receives."""

    data: bytes
    oid: ClassVar[int]
    element_oid: ClassVar[int]


class JsonbArray(EncodedArray):
    oid, element_oid = 3807, 3802


class ByteaArray(EncodedArray):
    oid, element_oid = 1001, 17


class TextArray(EncodedArray):
    oid, element_oid = 1009, 25


class IntegerArray(EncodedArray):
    oid, element_oid = 1007, 23


class DoubleArray(EncodedArray):
    oid, element_oid = 1022, 701


class TimestampArray(EncodedArray):
    oid, element_oid = 1185, 1184


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: EncodedArray) -> bytes:
        return obj.data


def register_arrays(connection: psycopg.Connection[Any]) -> None:
    """Let the connection accept encoded arrays as parameters."""
    for kind in EncodedArray.__subclasses__():
        dumper = type(f"{kind.__name__}Dumper", (_ArrayDumper,), {"oid": kind.oid})
        connection.adapters.register_dumper(kind, dumper)


def encode_column(array: pa.Array, name: str) -> EncodedArray | None:
    """A column of the sink. None if it has no values, which is faster than an array of nulls."""
    if array.null_count == len(array):
        return None
    kind, encode = _ENCODERS[name]
    values = encode(array, name)
    version = _JSONB_VERSION if kind is JsonbArray else b""
    elements = pc.binary_join_element_wise(
        *_elements(version, values), _NOTHING, null_handling="replace"
    )
    offsets = _offsets(elements)
    head = pack(">iiIii", 1, int(values.null_count > 0), kind.element_oid, len(array), 1)
    return kind(head + memoryview(elements.buffers()[2])[offsets[0] : offsets[-1]])


def _elements(version: bytes, values: pa.Array) -> list[pa.Array]:
    """The bytes before each value, and the values."""
    lengths = np.diff(_offsets(values)) + len(version)
    if not values.null_count:
        return [_heads(lengths, version), values]
    nothing = values.is_null()
    lengths[nothing.to_numpy(zero_copy_only=False)] = -1
    heads = _heads(lengths, version)
    return [pc.if_else(nothing, _heads(lengths, b""), heads) if version else heads, values]


def _heads(lengths: Any, after: bytes) -> pa.Array:
    rows = np.empty((len(lengths), 4 + len(after)), np.uint8)
    rows[:, :4] = lengths.astype(">i4").view(np.uint8).reshape(-1, 4)
    rows[:, 4:] = np.frombuffer(after, np.uint8)
    return _fixed(rows, rows.shape[1])


def _offsets(values: pa.Array) -> Any:
    return np.frombuffer(values.buffers()[1], np.int64)[
        values.offset : values.offset + len(values) + 1
    ]


def _fixed(numbers: Any, width: int, mask: pa.Array | None = None) -> pa.Array:
    """Numbers of a fixed width as bytes, with nulls where the mask has them."""
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers.tobytes())]
    found = pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)
    return found if mask is None or not mask.true_count else pc.if_else(mask, None, found)


def _text(array: pa.Array, name: str) -> pa.Array:
    return array.cast(pa.large_binary())


def _json(array: pa.Array, name: str) -> pa.Array:
    if pa.types.is_map(array.type):
        array = pa.array(list(_maps(array.to_pylist())), pa.large_string())
    return array.cast(pa.large_binary())


def _maps(values: list[Any]) -> Iterator[str | None]:
    for value in values:
        yield None if value is None else json.dumps(dict(value))


def _number(kind: pa.DataType, wire: str) -> Callable[[pa.Array, str], pa.Array]:
    def encode(array: pa.Array, name: str) -> pa.Array:
        try:
            numbers = array.cast(kind)
        except pa.ArrowInvalid as error:
            raise InvalidValueError(f"column {name} is out of range: {error}", field=name) from None
        filled = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
        return _fixed(filled.astype(wire), np.dtype(wire).itemsize, numbers.is_null())

    return encode


def _moment(array: pa.Array, name: str) -> pa.Array:
    moments = pc.fill_null(array.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 0)
    since = moments.to_numpy(zero_copy_only=False) - _EPOCH_MICROSECONDS
    return _fixed(since.astype(">i8"), 8, array.is_null())


_Encoder = tuple[type[EncodedArray], Callable[[pa.Array, str], pa.Array]]
_ENCODERS: Final[dict[str, _Encoder]] = {
    **dict.fromkeys(("payload", "headers"), (JsonbArray, _json)),
    "payload_bytes": (ByteaArray, _text),
    **dict.fromkeys(("key", "group_key"), (TextArray, _text)),
    **dict.fromkeys(("priority", "max_attempts"), (IntegerArray, _number(pa.int32(), ">i4"))),
    **dict.fromkeys(("delay_seconds", "ttl_seconds"), (DoubleArray, _number(pa.float64(), ">f8"))),
    "visible_at": (TimestampArray, _moment),
}
