"""A stream of messages in chunks, limited by number and by bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable
from typing import Any, Final, TypeAlias

from penstock.commands import read
from penstock.commands.arguments import refuse, whole
from penstock.commands.command import Command
from penstock.commands.write.enqueueing import Encoded, encode, enqueue_chunk
from penstock.model.message import Enqueued, OnConflict, Unique

ASYNC: Final = True
MAX_CHUNK: Final = 10_000
"""The largest number of messages in one call of the SQL function."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk is sent early when its payloads exceed this size, to limit the use of memory."""

if ASYNC:
    Chunks: TypeAlias = AsyncGenerator[tuple[Command[Enqueued], bool], None]
else:
    Chunks: TypeAlias = Generator[tuple[Command[Enqueued], bool], None, None]


async def chunks(
    queue: str,
    messages: Iterable[Any] | AsyncIterable[Any],
    size: int,
    on_conflict: OnConflict,
    unique: Unique,
) -> Chunks:
    """The commands that enqueue the messages, each with whether it is the last.

    An empty stream has one command, which enqueues nothing and only checks that the queue exists.
    """
    if not 1 <= whole("chunk_size", size) <= MAX_CHUNK:
        raise refuse("chunk_size", size, f"1 to {MAX_CHUNK}")
    chunk: list[Encoded] = []
    held = 0
    async for message in _each(messages):
        encoded = encode(message)
        # A full chunk is sent when the next message arrives, so that the last chunk is known.
        if len(chunk) == size or held > CHUNK_BYTES:
            yield enqueue_chunk(queue, chunk, on_conflict, unique), False
            chunk, held = [], 0
        chunk.append(encoded)
        held += encoded.size()
    if chunk:
        yield enqueue_chunk(queue, chunk, on_conflict, unique), True
    else:
        yield read.queue(queue).then(lambda _: Enqueued(0, None, None)), True


async def _each(messages: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if ASYNC and isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
        return
    # A str, bytes or dict is one payload. Iterating over it would enqueue its parts.
    if isinstance(messages, str | bytes | bytearray | memoryview | dict) or not isinstance(
        messages, Iterable
    ):
        raise refuse("messages", messages, "an iterable of payloads or NewMessages")
    for message in messages:
        yield message
