"""Payloads and headers as text that PostgreSQL stores unchanged, and back. No I/O.

Values that JSON or PostgreSQL cannot represent are refused before a statement is sent. An error of
the server would abort the caller's transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from penstock.errors import PayloadNotStorableError

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
# An escaped NUL: an odd number of backslashes before u0000. An even number is a backslash in text.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# Strings are matched only to be skipped.
_STRING_OR_EXPONENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?e\+\d+')
# A number with an exponent of three digits or more. PostgreSQL prints it in full.
_LARGE_EXPONENT: Final = re.compile(r"\d[eE][+-]?\d{3}")
_STRING_OR_LARGE_EXPONENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[eE][+-]?(\d{3,})')
# PostgreSQL refuses numbers with more digits than this.
_MOST_DIGITS: Final = 131_072
# A shorter text is printed within milliseconds, and the database checks its size.
_SHORT_TEXT: Final = 1000


class JsonText(str):
    """A payload that is JSON text already. It is sent unchanged, and the database checks it."""

    __slots__ = ()


def encode_payload(payload: Any) -> tuple[str | None, bytes | None]:
    """The payload as (JSON text, None) or (None, bytes)."""
    if isinstance(payload, JsonText):
        return str(payload), None
    if isinstance(payload, bytes | bytearray | memoryview):
        return None, bytes(payload)
    return encode_json(payload, "payload"), None


def encode_headers(headers: Mapping[str, Any] | None) -> str | None:
    """The headers as the text of a JSON object, or None if there are none."""
    if headers is None:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(name, str) for name in headers):
        raise PayloadNotStorableError(
            f"headers are {headers!r:.200}, not a mapping with text keys",
            hint="Give headers as a dict, such as {'tenant': 'a'}.",
        )
    return encode_json(dict(headers), "headers") if headers else None


def encode_json(value: Any, what: str) -> str:
    """JSON text that jsonb stores without loss. `what` names the value in errors."""
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError as exc:
        raise _refused(what, "it holds a lone surrogate, which is not text", _TEXT_HINT) from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise _refused(what, _reason(exc), _JSON_HINT) from exc
    return storable_json(text, what)


def storable_json(text: str, what: str) -> str:
    """JSON text that jsonb stores without loss. Other values are refused."""
    check_no_nul(text, what)
    return _STRING_OR_EXPONENT.sub(_written_out, text) if "e+" in text else text


def check_no_nul(text: str, what: str, **fields: Any) -> None:
    """Refuse JSON text with the character NUL, which PostgreSQL cannot store."""
    if "\\u0000" in text and _NUL.search(text):
        raise PayloadNotStorableError(
            f"the {what} cannot be stored: it holds the character NUL (\\u0000)",
            hint=_TEXT_HINT,
            **fields,
        )


def printed_bytes(text: str) -> int:
    """The approximate size of JSON text when PostgreSQL prints it: `1e1000` has 1,001 digits then.

    It is exact enough to refuse text that would fill the memory of the database. The database
    compares the exact size with the limit of the queue.
    """
    size = len(text)
    if size <= _SHORT_TEXT or not _LARGE_EXPONENT.search(text):
        return size
    for match in _STRING_OR_LARGE_EXPONENT.finditer(text):
        if match[1] is not None:
            size += min(int(match[1][:7]), _MOST_DIGITS)
    return size


_JSON_HINT: Final = "Give JSON values (dict, list, str, int, float, bool, None), or bytes."
_TEXT_HINT: Final = "PostgreSQL cannot hold it in JSON: remove it, or send the payload as bytes."


def _refused(what: str, reason: str, hint: str) -> PayloadNotStorableError:
    return PayloadNotStorableError(f"the {what} cannot be stored: {reason}", hint=hint)


def _reason(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "it is nested too deeply"
    text = str(exc)
    return text[:1].lower() + text[1:]


def _written_out(match: re.Match[str]) -> str:
    # jsonb stores numbers as decimals: 1e+23 would come back as the integer 10**23, which is
    # another number. Written in full and with a fraction, it comes back as the float.
    token = match[0]
    return token if token.startswith('"') else f"{float(token):.1f}"


def decode_json(text: str | None) -> Any:
    """Decode a JSON text as Python's json does."""
    if text is None:
        return None
    try:
        # jsonb returns the value without white space. json.loads, which allows it, takes twice as
        # long.
        value, end = _READ(text)
        return value if end == len(text) else json.loads(text)
    except ValueError:
        # Python refuses to read integers of more than 4,300 digits; SQL callers can store them.
        return _PATIENT.decode(text)
    except RecursionError:
        return _decode_deep(text)


_READ: Final = json.JSONDecoder().raw_decode
_PATIENT: Final = json.JSONDecoder(parse_int=lambda digits: int(Decimal(digits)))
_GAP: Final = re.compile(r"[\s,:]*")


def _decode_deep(text: str) -> Any:
    """Decodes values that are nested too deeply for Python's json, without recursion.

    SQL callers can store them, and a claim must not fail because of one message that it has leased.
    The text comes from jsonb, so it is valid, and the position tells keys from values.
    """
    outermost: list[Any] = []
    # Each open container, with the key that waits for its value.
    open_containers: list[tuple[list[Any] | dict[str, Any], str | None]] = [(outermost, None)]
    position = 0
    while position < len(text):
        token = text[position]
        container, key = open_containers[-1]
        if token in "]}":
            open_containers.pop()
            position = _skip(text, position + 1)
            continue
        value: Any
        if token in "[{":
            value, position = [] if token == "[" else {}, position + 1
        else:
            value, position = _PATIENT.raw_decode(text, position)
        position = _skip(text, position)
        if isinstance(container, list):
            container.append(value)
        elif key is None:
            open_containers[-1] = container, value
            continue
        else:
            container[key] = value
            open_containers[-1] = container, None
        if token in "[{":
            open_containers.append((value, None))
    return outermost[0]


def _skip(text: str, position: int) -> int:
    match = _GAP.match(text, position)
    assert match is not None
    return match.end()


def encode_deep(value: Any) -> str:
    """JSON text of a decoded value of any depth, without recursion."""
    parts: list[str] = []
    rest: list[Any] = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, JsonText):
            parts.append(each)
        elif isinstance(each, list):
            rest.append(JsonText("]"))
            for place in range(len(each) - 1, -1, -1):
                rest += [each[place], JsonText("," if place else "")]
            parts.append("[")
        elif isinstance(each, dict):
            rest.append(JsonText("}"))
            for place, (name, inner) in reversed(list(enumerate(each.items()))):
                rest += [inner, JsonText("," * bool(place) + _ENCODER.encode(name) + ":")]
            parts.append("{")
        else:
            parts.append(_ENCODER.encode(each))
    return "".join(parts)


def decode_payload(text: str | None, raw: bytes | memoryview | None) -> Any:
    """The JSON value, or the bytes."""
    return decode_json(text) if raw is None else bytes(raw)
