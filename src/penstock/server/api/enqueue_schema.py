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


def _object(name: str, required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": name,
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _message(name: str, content: str, *, topic: bool, nested: bool) -> dict[str, Any]:
    """A message by `json` or `payload`. `topic`: it must have one."""
    names = ["topic", *(name for name in OF_ONE if name == content or name not in _CONTENTS)]
    names += [] if nested else ["on_conflict", "unique"]
    return _object(
        name, [content, *(["topic"] if topic else [])], {name: _ALL[name] for name in names}
    )


def _many(name: str, items: tuple[str, str], *, topic: bool) -> dict[str, Any]:
    """Many messages. `topic`: they share one, and an item may have another."""
    limits = {key: _ALL["messages"][key] for key in ("minItems", "maxItems")}
    properties: dict[str, Any] = {
        **({"topic": _ALL["topic"]} if topic else {}),
        "messages": {"type": "array", "items": _one_of(*items), **limits},
        "on_conflict": _ALL["on_conflict"],
        "unique": _ALL["unique"],
    }
    return _object(name, [*(["topic"] if topic else []), "messages"], properties)


def _one_of(*names: str) -> dict[str, Any]:
    return {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in names]}


# Named schemas, because generators of clients name their types after them.
COMPONENTS: Final[dict[str, dict[str, Any]]] = {
    made["title"]: made
    for made in (
        _message("EnqueueJson", "json", topic=True, nested=False),
        _message("EnqueuePayload", "payload", topic=True, nested=False),
        _many("EnqueueToTopic", ("JsonMessage", "PayloadMessage"), topic=True),
        _many("EnqueueToTopics", ("JsonMessageToTopic", "PayloadMessageToTopic"), topic=False),
        _message("JsonMessage", "json", topic=False, nested=True),
        _message("PayloadMessage", "payload", topic=False, nested=True),
        _message("JsonMessageToTopic", "json", topic=True, nested=True),
        _message("PayloadMessageToTopic", "payload", topic=True, nested=True),
    )
}
SCHEMA: Final = _one_of("EnqueueJson", "EnqueuePayload", "EnqueueToTopic", "EnqueueToTopics")
