"""`POST /api/messages`: enqueues one message, or up to 1,000, all or none."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw

from penstock.commands.command import Command
from penstock.commands.payload import JsonText
from penstock.commands.write import create_queue, enqueue, enqueue_many
from penstock.db.async_connections import AnyConnection
from penstock.errors import InvalidValueError, QueueNotFoundError
from penstock.model.message import NewMessage
from penstock.server.api import documents as d
from penstock.server.api.call_batching import Kind
from penstock.server.api.enqueue_schema import SCHEMA, is_silent
from penstock.server.api.header_rules import check_headers
from penstock.server.api.topic_creation import check_new_topic, is_strict
from penstock.server.database import Database
from penstock.server.json_texts import check_json_text
from penstock.server.transport.idempotency import HEADER, once
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints, Pending

endpoint: Final = Endpoints("messages")


@endpoint(
    "POST",
    "/api/messages",
    body=d.Enqueue,
    body_schema=SCHEMA,
    answers={201: d.Enqueued | d.EnqueuedMany},
    problems=(404, 409, 429),
    keeps_answer=True,
)
def enqueue_messages(call: Call) -> Awaitable[Any] | Pending:
    """Enqueue one message, or up to 1,000 in `messages`, all or none.

    A missing topic is created, unless the call has `Prefer: handling=strict`.
    """
    body: d.Enqueue = call.body
    if body.messages is UNSET and call.header(HEADER) is None:
        return _enqueue_one(call, body)
    return _enqueue_many(call, body)


def _enqueue_one(call: Call, body: d.Enqueue) -> Pending:
    """One message, in a statement that it may share with messages of other callers."""
    kind, message = _single(call, body)
    enqueues = call.context.call_batching.enqueues

    async def without_queue(call: Call, error: QueueNotFoundError) -> d.Enqueued:
        if is_strict(call):
            raise error
        await call.run(create_queue(kind.topic, exist_ok=True))
        return _enqueued(call, await enqueues.submit(kind, message, call.caller))

    return Pending(enqueues.put(kind, message, call.caller), _enqueued, without_queue)


def _enqueued(call: Call, id: int) -> d.Enqueued:
    call.context.metrics.moved("enqueued", 1)
    return d.Enqueued(str(id))


async def _enqueue_many(call: Call, body: d.Enqueue) -> Any:
    commands = _commands(call, body)

    async def work(connection: AnyConnection | None) -> d.Enqueued | d.EnqueuedMany:
        ids = await _run(call.context.database, commands, connection)
        call.context.metrics.moved("enqueued", len(ids))
        if body.messages is UNSET:
            return d.Enqueued(str(ids[0]))
        return d.EnqueuedMany([str(id) for id in ids])

    try:
        return await once(call, 201, work)
    except QueueNotFoundError:
        if is_strict(call):
            raise
    for each in commands:
        await call.run(create_queue(each.topic, exist_ok=True))
    return await once(call, 201, work)


def _single(call: Call, body: d.Enqueue) -> tuple[Kind, NewMessage | JsonText]:
    """One message, and the kind of messages with which it can share a statement."""
    topic = _topic(body, body, 0)
    call.require("enqueue", topic)
    check_new_topic(topic)
    plain = _plain(call, body)
    kind = Kind(topic, body.on_conflict, body.unique, plain is not None)
    return kind, _message(call, body, "") if plain is None else plain


def _plain(call: Call, body: d.Enqueue) -> JsonText | None:
    """The payload of a small message without options, as most messages are."""
    if body.json is UNSET or body.payload is not UNSET:
        return None
    options = (body.metadata, body.key, body.group, body.ttl_seconds, body.max_retries)
    if options != _NO_OPTIONS or body.visible_at is not None or body.priority or body.delay_seconds:
        return None
    if (body.on_conflict, body.unique) != ("replace", "waiting"):
        return None
    text = _text(call, body.json, "")
    return text if len(text) < _PLAIN_BYTES else None


_PLAIN_BYTES: Final = 900
_NO_OPTIONS: Final = (None,) * 5


class _Part(NamedTuple):
    """The messages of one topic, and their positions in the request."""

    topic: str
    places: Sequence[int]
    command: Command[list[int]]


def _commands(call: Call, body: d.Enqueue) -> list[_Part]:
    if body.messages is UNSET:
        topic = _topic(body, body, 0)
        call.require("enqueue", topic)
        check_new_topic(topic)
        return [_Part(topic, [0], _one(topic, _message(call, body, ""), body))]
    if (body.payload, body.json) != (UNSET, UNSET):
        raise _refused("messages", "the body has both `messages` and a payload; send one of them")
    if not is_silent(body):
        raise _refused(
            "messages",
            "options next to `messages` must be inside of its messages, except topic, on_conflict"
            " and unique",
        )
    by_topic: dict[str, list[tuple[int, NewMessage]]] = {}
    for number, each in enumerate(body.messages):
        message = _message(call, each, f"messages[{number}].")
        by_topic.setdefault(_topic(each, body, number), []).append((number, message))
    parts = []
    # Always in the same order, so that two batches with keys do not wait for each other.
    for topic, numbered in sorted(by_topic.items()):
        call.require("enqueue", topic)
        check_new_topic(topic)
        messages = [message for _, message in numbered]
        many = enqueue_many(topic, messages, on_conflict=body.on_conflict, unique=body.unique)
        parts.append(_Part(topic, [number for number, _ in numbered], many))
    return parts


async def _run(
    database: Database, parts: Sequence[_Part], connection: AnyConnection | None
) -> list[int]:
    """All or none. Returns the ids in the order of the messages."""
    if len(parts) == 1 and connection is None:
        return await database.run(parts[0].command)
    if len(parts) == 1:
        return await database.run(parts[0].command, connection)
    if connection is None:
        async with database.transaction() as made:
            return await _run(database, parts, made)
    ids: dict[int, int] = {}
    for part in parts:
        made_ids: list[int] = await database.run(part.command, connection)
        ids |= zip(part.places, made_ids, strict=True)
    return [ids[place] for place in sorted(ids)]


def _one(topic: str, message: NewMessage, body: d.Enqueue) -> Command[list[int]]:
    command = enqueue(
        topic,
        message.payload,
        key=message.key,
        priority=message.priority,
        group=message.group,
        delay=message.delay,
        visible_at=message.visible_at,
        ttl=message.ttl,
        headers=message.headers,
        max_attempts=message.max_attempts,
        on_conflict=body.on_conflict,
        unique=body.unique,
    )
    return command.then(lambda id: [id])


def _topic(message: d.NewMessage, body: d.Enqueue, number: int) -> str:
    if message.topic is not UNSET:
        return message.topic
    if body.topic is not UNSET:
        return body.topic
    if message is body:
        raise _refused("topic", "the body lacks topic")
    raise _refused(
        f"messages[{number}].topic", f"neither the body nor messages[{number}] has a topic"
    )


def _message(call: Call, message: d.NewMessage, where: str) -> NewMessage:
    if (message.payload is UNSET) == (message.json is UNSET):
        how_many = "neither" if message.json is UNSET else "both"
        raise _refused(
            f"{where}payload",
            f"{where.rstrip('.') or 'the body'} has {how_many} of `payload` (base64) and `json`"
            " (a JSON value); send one of them",
        )
    check_headers(message.metadata, f"{where}metadata")
    return NewMessage(
        message.payload if message.json is UNSET else _text(call, message.json, where),
        key=message.key,
        priority=message.priority,
        group=message.group,
        delay=message.delay_seconds or None,
        visible_at=message.visible_at,
        ttl=message.ttl_seconds,
        headers=message.metadata,
        max_attempts=None if message.max_retries is None else message.max_retries + 1,
    )


def _text(call: Call, json: Raw, where: str) -> JsonText:
    """The text as it was sent. The database parses it."""
    try:
        text = JsonText(bytes(json), "utf-8")
    except UnicodeDecodeError:
        raise HttpError(
            400, "MalformedBody", "the body is not UTF-8", field=f"{where}json"
        ) from None
    check_json_text(text, call.context.settings.max_body_bytes, f"{where}json")
    return text


def _refused(field: str, message: str) -> InvalidValueError:
    return InvalidValueError(message, field=field)
