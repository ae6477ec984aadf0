"""The OpenAPI schema of the body of an enqueue.

It states which fields go together: one message with `payload` or `json`, or many messages, each
with one of the two, and with separate topics or a shared one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from penstock.server.api import documents as d

_ALL: Final = msgspec.json.schema(d.Enqueue)["$defs"]["Enqueue"]["properties"]
# These fields belong to one message and are refused together with `messages`.
OF_ONE: Final = tuple(name for name in d.NewMessage.__struct_fields__ if name != "topic")
_CONTENTS: Final = ("payload", "json")
_DEFAULTS: Final = {"priority": 0, "delay_seconds": 0}


def is_silent(body: d.Enqueue) -> bool:
    """The fields of one message are absent."""
    said = (name for name in OF_ONE if getattr(body, name) != _DEFAULTS.get(name))
    return all(name in _CONTENTS for name in said)


def _object(title: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": title,
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _message(content: str, topic: str, *, nested: bool) -> dict[str, Any]:
    names = ["topic", *(name for name in OF_ONE if name == content or name not in _CONTENTS)]
    names += [] if nested else ["on_conflict", "unique"]
    required = [content, *(["topic"] if topic == "required" else [])]
    return _object(f"A message by {content}", required, {name: _ALL[name] for name in names})


def _many(topic: str) -> dict[str, Any]:
    """`shared`: one topic for all messages. `own`: each message has a topic."""
    nested = "required" if topic == "own" else "optional"
    items = {"oneOf": [_message(content, nested, nested=True) for content in _CONTENTS]}
    limits = {key: _ALL["messages"][key] for key in ("minItems", "maxItems")}
    properties: dict[str, Any] = {
        "messages": {"type": "array", "items": items, **limits},
        "on_conflict": _ALL["on_conflict"],
        "unique": _ALL["unique"],
        **{name: {"const": _DEFAULTS.get(name)} for name in OF_ONE if name not in _CONTENTS},
    }
    if topic == "shared":
        return _object(
            "Messages of one topic", ["topic", "messages"], {"topic": _ALL["topic"], **properties}
        )
    return _object("Messages with separate topics", ["messages"], properties)


SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        _message("json", "required", nested=False),
        _message("payload", "required", nested=False),
        _many("shared"),
        _many("own"),
    ]
}
