"""`POST /api/messages`: one message, or up to 1,000, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Raw

from penstock.errors import InvalidValueError, QueueNotFoundError
from penstock.message import NewMessage
from penstock.operations import create_queue, enqueue, enqueue_many
from penstock.payload import JsonText
from penstock.server.data import documents as d
from penstock.server.problems import HttpError
from penstock.server.routing import Call, Endpoints
from penstock.server.topics import is_strict

endpoint: Final = Endpoints("messages")


@endpoint(
    "POST",
    "/api/messages",
    scope="enqueue",
    body=d.Enqueue,
    answers={201: d.Enqueued | d.EnqueuedMany},
    problems=(404, 409, 429),
)
async def enqueue_messages(call: Call) -> d.Enqueued | d.EnqueuedMany:
    """Enqueue one message, or up to 1,000 in `messages`, all or none.

    A topic that does not exist is made, unless the call has `Prefer: handling=strict`.
    """
    body: d.Enqueue = call.body
    if body.messages is UNSET:
        topic = _topic(body, body, 0)
        call.require("enqueue", topic)
        message = _message(body, "")
        ids = [await _enqueue_one(call, topic, message, body)]
        return d.Enqueued(str(ids[0]))
    if (body.payload, body.json) != (UNSET, UNSET):
        raise _refused("messages", "either `messages`, or one message with `payload` or `json`")
    return d.EnqueuedMany([str(id) for id in await _enqueue_batch(call, body)])


async def _enqueue_one(call: Call, topic: str, message: NewMessage, body: d.Enqueue) -> int:
    command = enqueue(
        topic,
        message.payload,
        key=message.key,
        priority=message.priority,
        group=message.group,
        delay=message.delay,
        ttl=message.ttl,
        headers=message.headers,
        max_attempts=message.max_attempts,
        on_conflict=body.on_conflict,
        unique=body.unique,
    )
    try:
        return await call.run(command)
    except QueueNotFoundError:
        if is_strict(call):
            raise
        await call.run(create_queue(topic, exist_ok=True))
        return await call.run(command)


async def _enqueue_batch(call: Call, body: d.Enqueue) -> list[int]:
    assert body.messages is not UNSET
    by_topic: dict[str, list[tuple[int, NewMessage]]] = {}
    for number, each in enumerate(body.messages):
        message = _message(each, f"messages[{number}].")
        by_topic.setdefault(_topic(each, body, number), []).append((number, message))
    for topic in by_topic:
        call.require("enqueue", topic)
    try:
        return await _enqueue_topics(call, by_topic, body)
    except QueueNotFoundError:
        if is_strict(call):
            raise
        for topic in by_topic:
            await call.run(create_queue(topic, exist_ok=True))
        return await _enqueue_topics(call, by_topic, body)


async def _enqueue_topics(
    call: Call, by_topic: dict[str, list[tuple[int, NewMessage]]], body: d.Enqueue
) -> list[int]:
    ids: dict[int, int] = {}
    commands = [
        (numbered, _command(topic, [message for _, message in numbered], body))
        # Always in the same order, so that two batches with keys do not wait for each other.
        for topic, numbered in sorted(by_topic.items())
    ]
    if len(commands) == 1:
        return await call.run(commands[0][1])
    database = call.context.database
    async with database.transaction() as connection:
        for numbered, command in commands:
            made = await database.run(command, connection)
            ids |= {number: id for (number, _), id in zip(numbered, made, strict=True)}
    return [ids[number] for number in sorted(ids)]


def _command(topic: str, messages: Sequence[NewMessage], body: d.Enqueue):  # type: ignore[no-untyped-def]
    return enqueue_many(topic, messages, on_conflict=body.on_conflict, unique=body.unique)


def _topic(message: d.NewMessage, body: d.Enqueue, number: int) -> str:
    if message.topic is not UNSET:
        return message.topic
    if body.topic is not UNSET:
        return body.topic
    raise _refused(f"messages[{number}].topic" if message is not body else "topic", "a topic")


def _message(message: d.NewMessage, where: str) -> NewMessage:
    if (message.payload is UNSET) == (message.json is UNSET):
        raise _refused(f"{where}payload", "one of `payload` (base64) and `json` (a JSON value)")
    return NewMessage(
        message.payload if message.json is UNSET else _text(message.json, where),
        key=message.key,
        priority=message.priority,
        group=message.group,
        delay=message.delay_seconds or None,
        ttl=message.ttl_seconds,
        headers=message.metadata,
        max_attempts=None if message.max_retries is None else message.max_retries + 1,
    )


def _text(json: Raw, where: str) -> JsonText:
    """As it came; the database reads it. msgspec steps over it without a look at its letters."""
    try:
        return JsonText(bytes(json), "utf-8")
    except UnicodeDecodeError:
        raise HttpError(
            400, "MalformedBody", "the body is not UTF-8", field=f"{where}json"
        ) from None


def _refused(field: str, allowed: str) -> InvalidValueError:
    return InvalidValueError(
        f"the message says nothing, or two things, in {field}; allowed: {allowed}",
        field=field,
        allowed=allowed,
    )
