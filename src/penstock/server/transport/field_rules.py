"""The rules of a field in words, for the errors of a body or query that breaks them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_KINDS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_FORMATS: Final = {"date-time": "a time with its zone, such as 2026-01-31T12:00:00Z"}
Schema = Mapping[str, Any]


@cache
def _schema(kind: Any) -> Schema:
    return msgspec.json.schema(kind)


def allowed_values(kind: Any, path: str, with_null: bool = True) -> str | None:
    """What a field may contain, such as "a whole number from 1 to 1000". None if unknown.

    `path` is the path of the field in the words of msgspec, such as `messages[...].topic`.
    """
    found = [each for each in _walk(kind, path) if with_null or each.get("type") != "null"]
    texts = list(dict.fromkeys(text for each in found for text in _texts(each)))
    return " or ".join(texts) or None


def field_names(kind: Any, path: str) -> list[str]:
    """The names of the fields of an object."""
    return [name for each in _walk(kind, path) for name in each.get("properties", ())]


def _walk(kind: Any, path: str) -> Iterator[Schema]:
    """The schemas at a path, without references and unions."""
    whole = _schema(kind)
    places = list(_options(whole, whole))
    for name, number in _STEP.findall(path):
        parts = [
            each.get("items") if number else each.get("properties", {}).get(name) for each in places
        ]
        places = [option for part in parts if part for option in _options(part, whole)]
    yield from places


def _options(schema: Schema, whole: Schema) -> Iterator[Schema]:
    if "$ref" in schema:
        yield from _options(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _options(each, whole)
    else:
        yield schema


def _texts(schema: Schema) -> Iterator[str]:
    kind = schema.get("type")
    if "enum" in schema:
        yield from (str(value) for value in schema["enum"])
    elif kind == "string":
        yield _string(schema)
    elif kind in _KINDS:
        yield _KINDS[kind] + _range(schema)


def _string(schema: Schema) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if schema.get("contentEncoding") == "base64":
        return "base64 text"
    if "pattern" in schema and "minLength" not in schema and "maxLength" not in schema:
        return str(schema.get("description") or f"text that matches {schema['pattern']}")
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    return "a string" if high is None else f"a string of {low} to {high} characters"


def _range(schema: Schema) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    if "minItems" in schema and "maxItems" in schema:
        return f" of {schema['minItems']} to {schema['maxItems']} items"
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']}, up to {schema.get('maximum')}"
    return ""
