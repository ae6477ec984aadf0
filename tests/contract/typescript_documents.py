"""Messages, queues and errors of the data plane as the clients for Python have them, and back."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from penstock import NewMessage
from penstock.errors import PenstockError
from penstock.http_client.responses import problem
from penstock.model.message import Attempt, Lease, Message
from penstock.model.queue import Backoff, Queue, QueueSettings
from penstock.model.schedule import Schedule

# The names of the data plane.
NAMES: Final = {
    "queue": "topic",
    "payload": "json",
    "headers": "metadata",
    "max_attempts": "max_retries",
    "lease_seconds": "visibility_timeout_seconds",
    "delay": "delay_seconds",
    "ttl": "ttl_seconds",
    "older_than": "older_than_seconds",
}
FIELDS: Final = {http: python for python, http in NAMES.items()}
# Errors of the data plane that the clients for Python report under another name.
CODES: Final = {
    "NotFinished": "NotReplayableError",
    "MalformedBody": "InvalidValueError",
    "MalformedQuery": "InvalidValueError",
}
# The same for errors of a field.
CODES_OF_FIELDS: Final = {"queue": "InvalidQueueNameError", "headers": "PayloadNotStorableError"}


def packed(value: Any) -> Any:
    """The value as JSON that the driver can read."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")}
    if isinstance(value, Mapping):
        return {name: packed(each) for name, each in value.items()}
    return [packed(each) for each in value] if isinstance(value, list | tuple) else value


def error_of(error: Mapping[str, Any]) -> Exception:
    """The error that the client over HTTP raises for the same problem."""
    if "crash" in error:
        return AssertionError(f"the client for TypeScript crashed: {error['crash']}")
    document = dict(error["problem"])
    document["code"] = CODES.get(document["code"], document["code"])
    if "field" in document:
        name = str(document["field"]).rpartition(".")[2]
        document["field"] = FIELDS.get(name, name)
        if document["code"] == "InvalidValueError":
            document["code"] = CODES_OF_FIELDS.get(document["field"], "InvalidValueError")
    found: PenstockError = problem(error["status"], document)
    return found


def fields_of(options: Mapping[str, Any], *, given: bool = False) -> dict[str, Any]:
    """Options of a message or a queue. With `given`, None is the default of a setting."""
    return {
        NAMES.get(name, name): _field(name, value)
        for name, value in options.items()
        if given or value is not None
    }


def changes_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return fields_of(options, given=True)


def _field(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if name == "max_attempts" and isinstance(value, int):
        return value - 1
    if name == "ids":
        return [str(id) for id in value]
    if name in ("id_from", "id_to"):
        return str(value)
    return seconds_of(value)


def seconds_of(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def note_of(error: Any) -> Any:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"
    return error


def lease_document(lease: Any) -> dict[str, Any]:
    id, token = (lease.id, lease.token) if isinstance(lease, Lease) else lease
    return {"id": str(id), "lease_token": str(token)}


def new_document(message: Any) -> dict[str, Any]:
    new = message if isinstance(message, NewMessage) else NewMessage(message)
    fields = fields_of({name: value for name, value in asdict(new).items() if name != "payload"})
    if isinstance(new.payload, bytes):
        return {**fields, "payload": base64.b64encode(new.payload).decode()}
    return {**fields, "json": new.payload}


def time_of(text: str | None) -> Any:
    return None if text is None else datetime.fromisoformat(text)


def message_of(found: Mapping[str, Any]) -> Message:
    is_bytes = "payload" in found
    return Message(
        id=int(found["id"]),
        queue=found["topic"],
        state=found["state"],
        payload=base64.b64decode(found["payload"]) if is_bytes else found["json"],
        headers=found["metadata"],
        enqueued_at=time_of(found["created_at"]),
        lease_until=time_of(found["visibility_timeout"]),
        dead_at=time_of(found["dlq_moved_at"]),
        original_queue=found["original_topic"],
        attempts=tuple(_attempt(found, each) for each in found.get("attempts", ())),
        **{
            name: found[name]
            for name in ("key", "priority", "group", "attempt", "max_attempts", "worker")
        },
        **{
            name: time_of(found[name])
            for name in (
                *("visible_at", "expires_at", "first_claimed_at", "claimed_at", "finished_at"),
            )
        },
        last_error=found["last_error"],
    )


def _attempt(message: Mapping[str, Any], found: Mapping[str, Any]) -> Attempt:
    return Attempt(
        message_id=int(message["id"]),
        queue=message["topic"],
        attempt=found["attempt"],
        worker=found["worker"],
        started_at=time_of(found["started_at"]),
        ended_at=time_of(found["ended_at"]),
        error=found["error"],
    )


def queue_of(found: Mapping[str, Any]) -> Queue:
    names = {name: NAMES.get(name, name) for name in QueueSettings.__dataclass_fields__}
    settings = {name: found[http] for name, http in names.items()}
    settings["max_attempts"] += 1
    settings["backoff"] = Backoff(**settings["backoff"])
    return Queue(
        found["topic"],
        QueueSettings(**settings),
        time_of(found["created_at"]),
        time_of(found["updated_at"]),
    )


def schedule_of(found: Mapping[str, Any]) -> Schedule:
    fields = {name: found[NAMES.get(name, name)] for name in Schedule.__dataclass_fields__}
    for name in fields:
        if name.endswith("_at"):
            fields[name] = time_of(fields[name])
    for name, change in (("max_attempts", lambda n: n + 1), ("last_message_id", int)):
        if fields[name] is not None:
            fields[name] = change(fields[name])
    return Schedule(**fields)
