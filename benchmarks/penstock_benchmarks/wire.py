"""Parameters in PostgreSQL's binary format, built once so that clients spend no time on them."""

import json
import struct

JSONB_OID = 3802
INT8_OID = 20

_INT8_LENGTH = struct.pack("!i", 8)


def int4(value: int) -> bytes:
    return struct.pack("!i", value)


def jsonb(text: bytes) -> bytes:
    return b"\x01" + text


def array(element_oid: int, elements: list[bytes]) -> bytes:
    """A one-dimensional array without NULLs."""
    body = b"".join(struct.pack("!i", len(element)) + element for element in elements)
    return _array_header(element_oid, len(elements)) + body


def int8_array(elements: list[bytes]) -> bytes:
    """The same for bigints as they came from a result: on every batch, so it has to be quick."""
    return _array_header(INT8_OID, len(elements)) + _INT8_LENGTH + _INT8_LENGTH.join(elements)


def json_payload(size: int, number: int = 0) -> bytes:
    """A JSON object of exactly `size` bytes."""
    head = json.dumps({"message": number, "body": ""}).encode()
    if size < len(head):
        raise ValueError(f"a payload needs at least {len(head)} bytes, not {size}")
    return head[:-2] + b"x" * (size - len(head)) + b'"}'


def _array_header(element_oid: int, count: int) -> bytes:
    # dimensions, has-nulls flag, element type, length, lower bound
    return struct.pack("!iiIii", 1, 0, element_oid, count, 1)
