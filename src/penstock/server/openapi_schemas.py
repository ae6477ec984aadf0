"""Changes the schemas that msgspec writes into those that generators of clients understand.

- Times have the format `date-time`.
- A field of a request with a default is optional. Some generators make it required if the schema
  has the default, so the description has it instead.
- A field of a response is required if every response has it.
- Objects with any fields say so, and enumerations have a type.
- Objects that refuse unknown fields say so by `unevaluatedProperties`. In OpenAPI 3.1,
  openapi-generator reads `additionalProperties: false` as any fields, and sends each field under
  two names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

_TIMES: Final = ("visibility_timeout", "at")


def name_of(schema: dict[str, Any]) -> str | None:
    """The name of the component that a schema refers to."""
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def require_answered(components: dict[str, Any], names: Iterable[str | None]) -> None:
    """Require the fields with a default in responses: only msgspec may omit them in a request.

    A problem is the exception. It has only the fields that matter.
    """
    waiting, seen = [name for name in names if name], {"Problem"}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        part = components[name]
        properties = part.get("properties", {})
        required = set(part.get("required", ()))
        part["required"] = [
            each for each in properties if each in required or "default" in properties[each]
        ]
        waiting += _references(part)


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for each in part for name in _references(each)]
    if not isinstance(part, dict):
        return []
    found = name_of(part)
    return [found] if found else [name for each in part.values() for name in _references(each)]


def finish(part: Any, name: str = "") -> Any:
    """The final form of a schema, or of a document with schemas. `name` is that of its field."""
    if isinstance(part, list):
        return [finish(each, name) for each in part]
    if not isinstance(part, dict):
        return part
    found = {key: finish(value, _field(key, name)) for key, value in part.items()}
    if "x-pattern" in found:
        found["pattern"] = found.pop("x-pattern")
    if isinstance(found.get("anyOf"), list):
        # A schema without rules is JSON text that is passed on. The other option describes it.
        described = [each for each in found["anyOf"] if each]
        if len(described) < len(found["anyOf"]) and described == [{"type": "null"}]:
            return {}
        found["anyOf"] = described or [{}]
        if len(found["anyOf"]) == 1 and len(found) == 1:
            return found["anyOf"][0]
    if found.get("additionalProperties") is False:
        found["unevaluatedProperties"] = found.pop("additionalProperties")
    _add_types(found, name)
    _move_default(found)
    if isinstance(found.get("description"), str):
        found["description"] = " ".join(found["description"].split())
    return found


def _field(key: str, name: str) -> str:
    """The name of the field whose schema is below a key of a schema."""
    return name if key in ("anyOf", "items", "oneOf") else key


def _add_types(schema: dict[str, Any], name: str) -> None:
    if isinstance(schema.get("enum"), list) and all(isinstance(v, str) for v in schema["enum"]):
        schema.setdefault("type", "string")
    if schema.get("type") == "object" and not schema.keys() & {"properties", "oneOf"}:
        schema.setdefault("additionalProperties", True)
    is_time = name.endswith(("_at", "_until")) or name in (*_TIMES, "times")
    if schema.get("type") == "string" and is_time:
        schema["format"] = "date-time"


def _move_default(schema: dict[str, Any]) -> None:
    if "default" not in schema or not schema.keys() & {"type", "anyOf", "$ref", "enum"}:
        return
    default = schema.pop("default")
    if default not in (None, {}):
        text = schema.get("description", "")
        shown = json.dumps(default)
        schema["description"] = f"{text}; the default is {shown}" if text else f"Default: {shown}"
