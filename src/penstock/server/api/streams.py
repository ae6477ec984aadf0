"""Streams of messages as server-sent events, with credit.

A stream has at most `credit` messages that are not settled. When one of them is settled, by any
call, or its lease ends, its credit returns, and the stream claims the next message. So a slow
consumer holds no more messages than it asked for, and a fast one never waits for a new request.

A settle in this process wakes the streams up. Settles elsewhere are noticed within a second.

The key of a stream is checked again at least every five seconds, and before messages are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from math import inf
from typing import Annotated, Any, Final

import msgspec
import psycopg
from msgspec import Meta, Struct

from penstock.commands import read
from penstock.errors import PenstockError, QueueNotFoundError
from penstock.server import fields as f
from penstock.server.api import documents as d
from penstock.server.api.call_batching import Claim, Want
from penstock.server.api.leases import check_unsent, disconnected
from penstock.server.api.long_polls import PollKey
from penstock.server.api.rendering import content_bytes
from penstock.server.api.topic_creation import is_strict
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints, Reply, encoded, problem_reply

endpoint: Final = Endpoints("messages")
LOOK_SECONDS: Final = 1.0
# Messages are sent in parts of about this size. When a connection breaks, those in the parts that
# wait for a slow reader go back to their queue.
PART_BYTES: Final = 64 * 1024
Credit = Annotated[int, Meta(ge=1, le=1000, description="the largest number of unsettled messages")]

Duration = Annotated[
    float,
    Meta(ge=0, le=86_400, description="seconds until the stream ends; the default is never"),
]


class StreamOf(Struct, forbid_unknown_fields=True, kw_only=True):
    """The topic, the credit, and the lease."""

    topic: f.Name
    credit: Credit = 10
    visibility_timeout_seconds: f.LeaseSeconds | None = None
    worker: f.Worker | None = None
    duration_seconds: Duration | None = None


@endpoint(
    "GET",
    "/api/messages/stream",
    query=StreamOf,
    answers={200: Any},
    problems=(404,),
    media_type="text/event-stream",
)
async def stream_messages(call: Call) -> Reply:
    """Claim messages as they come, as server-sent events of the type `message`.

    The data of an event is a message, as in the response of a dequeue. Settle each message as
    usual: the stream has at most `credit` messages that are not settled. Its last event is `end`,
    when `duration_seconds` are over or the server stops, or `error`, with a problem, such as that
    the key was revoked.
    """
    query: StreamOf = call.query
    call.require("consume", query.topic)
    first = await _first(call, query)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Reply(_events(call, query, first), 200, headers, "text/event-stream")


async def _first(call: Call, query: StreamOf) -> list[d.Message]:
    """The messages that are available now. An error becomes an ordinary response, because the
    stream has not started."""
    want = Want(query.topic, query.visibility_timeout_seconds, _worker(call, query))
    try:
        found = await call.context.call_batching.claims.submit(
            want, Claim(query.credit, call), call.caller
        )
    except QueueNotFoundError:
        if is_strict(call):
            raise
        return []
    check_unsent(call, found)
    return found


async def _events(call: Call, query: StreamOf, found: list[d.Message]) -> AsyncGenerator[bytes]:
    clock = asyncio.get_running_loop().time
    end = inf if query.duration_seconds is None else clock() + query.duration_seconds
    gone = asyncio.ensure_future(disconnected(call))
    call.context.metrics.waits(1)
    held: dict[int, int] = {}
    try:
        yield b"retry: 1000\n\n"
        while True:
            sent = 0
            try:
                with call.context.answers.holding(sum(map(content_bytes, found))):
                    for part, count in _parts(found):
                        await _check_key(call, query)
                        yield part
                        if call.is_gone or gone.done():
                            return
                        sent += count
            finally:
                if sent < len(found):
                    call.context.call_batching.give_back(found[sent:])
            held |= {int(message.id): int(str(message.lease_token)) for message in found}
            call.context.metrics.moved("delivered", len(found))
            if call.context.draining.is_set() or clock() >= end:
                yield b"event: end\ndata: {}\n\n"
                return
            found = await _next(call, query, held, end - clock(), gone)
    except (PenstockError, HttpError, psycopg.Error) as error:
        problem = problem_reply(error, call.exchange)
        yield b"event: error\ndata: %b\n\n" % encoded(problem)
    finally:
        gone.cancel()
        call.context.metrics.waits(-1)


async def _next(
    call: Call, query: StreamOf, held: dict[int, int], left: float, gone: asyncio.Future[None]
) -> list[d.Message]:
    """Wait for messages; not for long while others are unsettled, because credit may return."""
    await _return_credit(call, held)
    if len(held) >= query.credit or call.context.answers.is_full:
        await call.context.settle_signal.wait(min(LOOK_SECONDS, left), gone)
        return []
    key = PollKey(query.topic, query.visibility_timeout_seconds, _worker(call, query))
    seconds = min(left, LOOK_SECONDS if held else call.context.auth.fresh_seconds)
    count = query.credit - len(held)
    return await call.context.long_polls.wait(key, count, seconds, False, gone)


def _worker(call: Call, query: StreamOf) -> str:
    return query.worker or call.principal.name


async def _check_key(call: Call, query: StreamOf) -> None:
    """AuthenticationError or PermissionDeniedError if the key may no longer consume the topic."""
    authorization = call.header("authorization")
    principal = await call.context.auth.authenticate(authorization, call.exchange.address)
    principal.require("consume", query.topic)


async def _return_credit(call: Call, held: dict[int, int]) -> None:
    """Forget messages whose leases have ended, also if another consumer has them."""
    if held:
        kept = await call.run(read.held_leases(list(held.items())))
        for id in held.keys() - kept:
            del held[id]


def _parts(found: Sequence[d.Message]) -> Iterator[tuple[bytes, int]]:
    """The events of messages in parts, with the number of messages in each. Never no part."""
    part, count = bytearray(), 0
    for message in found:
        part += _event(message)
        count += 1
        if len(part) >= PART_BYTES:
            yield bytes(part), count
            part, count = bytearray(), 0
    if part or not found:
        yield bytes(part) or b":\n\n", count


def _event(message: d.Message) -> bytes:
    """JSON has no line breaks outside of strings, and none within them."""
    data = msgspec.json.format(msgspec.json.encode(message), indent=-1)
    return b"event: message\nid: %b\ndata: %b\n\n" % (message.id.encode(), data)
