"""Messages and queues as flat JSON documents with the library's field names."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from penstock.model.message import Lease, Message
from penstock.model.queue import Queue


def lease_document(lease: Lease) -> dict[str, Any]:
    return _with_payload(_fields(lease))


def message_document(message: Message) -> dict[str, Any]:
    return _with_payload(_fields(message))


def queue_document(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        **queue.settings.as_dict(),
        "created_at": queue.created_at,
        "updated_at": queue.updated_at,
    }


def _fields(value: Lease | Message) -> dict[str, Any]:
    # Not asdict, which would copy every payload completely.
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _with_payload(document: dict[str, Any]) -> dict[str, Any]:
    """JSON has no bytes. Their base64 text has its own field, to tell it from a JSON payload."""
    if not isinstance(document["payload"], bytes):
        return document
    encoded = base64.b64encode(document["payload"]).decode("ascii")
    return {
        ("payload_base64" if name == "payload" else name): encoded if name == "payload" else value
        for name, value in document.items()
    }
