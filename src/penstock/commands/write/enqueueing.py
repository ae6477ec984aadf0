"""Enqueue one message or many. Payloads and headers are encoded and checked here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Unpack, get_args

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, scalar
from penstock.commands.payload import decode_json, encode_headers, encode_payload
from penstock.commands.trace_context import with_trace
from penstock.model.message import Enqueued, MessageOptions, NewMessage, OnConflict, Unique

# The parameters of `enqueue`, their counterparts in `enqueue_many`, and their types.
_FIELDS: Final = (
    ("payload", "payloads", "jsonb"),
    ("payload_bytes", "payloads_bytes", "bytea"),
    ("headers", "headers", "jsonb"),
    ("key", "keys", "text"),
    ("priority", "priorities", "integer"),
    ("group_key", "group_keys", "text"),
    ("delay", "delays", "interval"),
    ("visible_at", "visible_ats", "timestamptz"),
    ("ttl", "ttls", "interval"),
    ("max_attempts", "max_attempts", "integer"),
)
_CONFLICT: Final = {"on_conflict": "text", "unique_while": "text"}
_ENQUEUE: Final = call(
    "enqueue", queue="text", **{one: type_ for one, _, type_ in _FIELDS}, **_CONFLICT
)
_ENQUEUE_MANY: Final = call(
    "enqueue_many", queue="text", **{many: f"{type_}[]" for _, many, type_ in _FIELDS}, **_CONFLICT
)


def enqueue(
    queue: str,
    payload: Any,
    *,
    on_conflict: OnConflict = "replace",
    unique: Unique = "waiting",
    **options: Unpack[MessageOptions],
) -> Command[int]:
    """Enqueue one message. The trace context is taken when this function is called.

    Args:
        queue: The name of the queue.
        payload: Any JSON value, or `bytes`.
        on_conflict: What to do if the key is taken, as in `Client.enqueue`.
        unique: The messages that a key is compared with, as in `Client.enqueue`.
        **options: The options of `NewMessage` by name: `key`, `priority`, `group`, `delay`,
            `visible_at`, `ttl`, `headers` and `max_attempts`.

    Returns:
        A command whose result is the id of the message.
    """
    params = {
        "queue": check.text("queue", queue),
        **encode(NewMessage(payload, **options))._asdict(),
        **_conflict(on_conflict, unique),
    }
    return Command(_ENQUEUE, params, scalar)


def json_message(command: Command[int]) -> dict[str, Any]:
    """The parameters of an `enqueue` as JSON, to enqueue the message later.

    Args:
        command: The command that `enqueue` has returned.
    """
    params = dict(command.params)
    as_bytes = params.pop("payload_bytes")
    if as_bytes is not None:
        raise check.refuse("payload", as_bytes, "a JSON value")
    for name in ("payload", "headers"):
        params[name] = decode_json(params[name])
    for name in ("delay", "ttl"):
        if params[name] is not None:
            params[name] = f"{params[name].total_seconds():f} seconds"
    if params["visible_at"] is not None:
        params["visible_at"] = params["visible_at"].isoformat()
    return params


def enqueue_many(
    queue: str,
    messages: Sequence[Any],
    *,
    on_conflict: OnConflict = "replace",
    unique: Unique = "waiting",
) -> Command[list[int]]:
    """Enqueue up to 10,000 messages, all or none.

    Args:
        queue: The name of the queue.
        messages: Payloads, or `NewMessage`s for messages with options.
        on_conflict: What to do if a key is taken, as in `Client.enqueue`.
        unique: The messages that a key is compared with, as in `Client.enqueue`.

    Returns:
        A command whose result is the list of ids, in the order of the messages.
    """
    encoded = [encode(message) for message in messages]
    params = _chunk(queue, encoded, on_conflict, unique)
    return Command(_ENQUEUE_MANY, params, _ids)


def enqueue_texts(queue: str, payloads: Sequence[str]) -> Command[list[int]]:
    """Enqueue messages that have only a payload, given as JSON text. The result has their ids."""
    return Command(_ENQUEUE_MANY, {**_PLAIN, "queue": queue, "payloads": payloads}, _ids)


def _ids(rows: Rows) -> list[int]:
    return [row[0] for row in rows]


def enqueue_chunk(
    queue: str, chunk: Sequence[Encoded], on_conflict: OnConflict, unique: Unique
) -> Command[Enqueued]:
    """Enqueue a part of a larger `enqueue_many`, which is encoded already."""
    params = _chunk(queue, chunk, on_conflict, unique)
    return Command(_ENQUEUE_MANY, params, _enqueued)


class Encoded(NamedTuple):
    """A message that was checked and encoded, with the names that SQL has."""

    payload: str | None
    payload_bytes: bytes | None
    headers: str | None
    key: str | None
    priority: int
    group_key: str | None
    delay: Any
    visible_at: datetime | None
    ttl: Any
    max_attempts: int | None

    def size(self) -> int:
        """The approximate number of bytes in memory and on the wire."""
        return len(self.payload or "") + len(self.payload_bytes or b"") + len(self.headers or "")


def encode(message: Any) -> Encoded:
    """Check and encode a NewMessage, or a payload without options."""
    if not isinstance(message, NewMessage):
        message = NewMessage(message)
    payload, payload_bytes = encode_payload(message.payload)
    return Encoded(
        payload,
        payload_bytes,
        encode_headers(with_trace(message.headers)),
        check.optional_text("key", message.key),
        check.whole("priority", message.priority),
        check.optional_text("group", message.group),
        check.optional_duration("delay", message.delay),
        check.moment("visible_at", message.visible_at),
        check.optional_duration("ttl", message.ttl),
        check.optional_whole("max_attempts", message.max_attempts),
    )


def _chunk(
    queue: str, messages: Sequence[Encoded], on_conflict: OnConflict, unique: Unique
) -> dict[str, Any]:
    return {
        "queue": check.text("queue", queue),
        **columns(messages),
        **_conflict(on_conflict, unique),
    }


def columns(messages: Sequence[Encoded]) -> dict[str, Any]:
    """The arrays of `penstock.enqueue_many` for these messages, by name."""
    values = zip(*messages, strict=True) if messages else [()] * len(Encoded._fields)
    return dict(zip(_ARRAYS, map(_array, _ARRAYS, values), strict=True))


# In the order of Encoded, each with the value that stands for "not given".
_ARRAYS: Final = {
    "payloads": None,
    "payloads_bytes": None,
    "headers": None,
    "keys": None,
    "priorities": 0,
    "group_keys": None,
    "delays": None,
    "visible_ats": None,
    "ttls": None,
    "max_attempts": None,
}


_PLAIN: Final[dict[str, Any]] = {
    **dict.fromkeys(_ARRAYS),
    "on_conflict": "replace",
    "unique_while": "waiting",
}


def _array(name: str, values: Sequence[Any]) -> list[Any] | None:
    """The values, or None if no message has one, so that most arrays are not sent."""
    absent = _ARRAYS[name]
    if name != "payloads" and all(value == absent for value in values):
        return None
    return list(values)


def _conflict(on_conflict: OnConflict, unique: Unique) -> dict[str, str]:
    return {
        "on_conflict": check.one_of("on_conflict", on_conflict, get_args(OnConflict)),
        "unique_while": check.one_of("unique", unique, get_args(Unique)),
    }


def _enqueued(rows: Rows) -> Enqueued:
    return Enqueued(len(rows), rows[0][0], rows[-1][0]) if rows else Enqueued(0, None, None)
