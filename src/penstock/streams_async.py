"""A stream of messages, in chunks that are bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

from penstock import insights
from penstock.arguments import refuse, whole
from penstock.command import Command
from penstock.message import Enqueued, OnConflict, Unique
from penstock.operations.enqueueing import Encoded, encode, enqueue_chunk
from penstock.twins import AsyncStream, each_async

MAX_CHUNK: Final = 10_000
"""The most messages that one call of the SQL function takes."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk of large payloads is sent before it has its number, so that memory stays bounded."""


async def chunks(
    queue: str,
    messages: Iterable[Any] | AsyncIterable[Any],
    size: int,
    on_conflict: OnConflict,
    unique: Unique,
) -> AsyncStream[tuple[Command[Enqueued], bool]]:
    """The commands that enqueue the messages, each with whether it is the last.

    An empty stream has one, too, which enqueues nothing and only looks whether the queue is there.
    """
    if not 1 <= whole("chunk_size", size) <= MAX_CHUNK:
        raise refuse("chunk_size", size, f"1 to {MAX_CHUNK}")
    chunk: list[Encoded] = []
    held = 0
    async for message in each_async(messages):
        encoded = encode(message)
        # Sent only when one more has come: so the last one is known to be the last.
        if len(chunk) == size or held > CHUNK_BYTES:
            yield enqueue_chunk(queue, chunk, on_conflict, unique), False
            chunk, held = [], 0
        chunk.append(encoded)
        held += encoded.size()
    if chunk:
        yield enqueue_chunk(queue, chunk, on_conflict, unique), True
    else:
        yield insights.queue(queue).then(lambda _: Enqueued(0, None, None)), True
