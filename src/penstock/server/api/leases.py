"""Dequeue, and the calls of the holder of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any, Final

from penstock.commands import read, write
from penstock.db.async_connections import AnyConnection
from penstock.errors import InvalidValueError, LeaseLostError, QueueNotFoundError
from penstock.model.message import SettledState
from penstock.server.api import documents as d
from penstock.server.api.call_batching import Claim, Want
from penstock.server.api.long_polls import PollKey
from penstock.server.api.rendering import STATUS, claim_documents, content_bytes, status_of
from penstock.server.api.topic_creation import is_strict
from penstock.server.fields import Status
from penstock.server.transport.idempotency import HEADER, once
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints, Pending, Reply
from penstock.server.transport.unsent_answers import LARGE_BYTES

endpoint: Final = Endpoints("messages")


@endpoint(
    "POST",
    "/api/messages/dequeue",
    body=d.Dequeue,
    answers={200: d.DequeuedMessages},
    problems=(404,),
    keeps_answer=True,
)
def dequeue_messages(call: Call) -> Awaitable[d.DequeuedMessages] | Pending:
    """Claim messages under a lease. With `wait_seconds`, wait until there is one.

    A topic that does not exist is empty, unless the call has `Prefer: handling=strict`.
    """
    body: d.Dequeue = call.body
    call.require("consume", body.topic)
    worker = body.worker or call.principal.name
    if call.header(HEADER) is not None:
        return _dequeue_once(call, body, worker)
    if body.wait_seconds:
        return _wait(call, body, worker)
    want = Want(body.topic, body.visibility_timeout_seconds, worker)
    claims = call.context.call_batching.claims
    return Pending(
        claims.put(want, Claim(body.count, call), call.caller), _delivered, _without_topic
    )


def _delivered(call: Call, found: list[d.Message]) -> d.DequeuedMessages:
    if call.is_gone:
        call.context.call_batching.give_back(found)
        return d.DequeuedMessages([])
    check_unsent(call, found)
    call.context.metrics.moved("delivered", len(found))
    return d.DequeuedMessages(found)


def check_unsent(call: Call, found: list[d.Message]) -> None:
    """Refuse to send large messages while there is no room, because other callers do not read. The
    messages go back."""
    size = sum(map(content_bytes, found)) if call.context.answers.bytes else 0
    if size < LARGE_BYTES:
        return
    try:
        call.context.answers.check(size)
    except HttpError:
        call.context.call_batching.give_back(found)
        raise


class _NothingFoundError(Exception):
    """An empty answer is not kept: the call may be sent again."""


async def _dequeue_once(call: Call, body: d.Dequeue, worker: str) -> Any:
    """The messages of the first call with this Idempotency-Key.

    A wait holds no transaction, so its messages are kept after it. If another call with the key was
    first, they go back.
    """
    command = claim_documents(
        body.topic,
        body.count,
        body.visibility_timeout_seconds,
        worker,
        call.context.settings.answer_bytes,
    )

    async def claim(connection: AnyConnection | None) -> d.DequeuedMessages:
        found = await call.context.database.run(command, connection)
        if not found:
            raise _NothingFoundError
        return d.DequeuedMessages(found)

    try:
        return await once(call, 200, claim)
    except _NothingFoundError:
        pass
    except QueueNotFoundError as error:
        if not body.wait_seconds:
            return await _without_topic(call, error)
    waited = await _wait(call, body, worker) if body.wait_seconds else d.DequeuedMessages([])
    if not waited.messages:
        return waited

    async def keep(connection: AnyConnection | None) -> d.DequeuedMessages:
        return waited

    reply: Reply = await once(call, 200, keep)
    if reply.headers:  # it is the answer to another call
        call.context.call_batching.give_back(waited.messages)
    return reply


async def _without_topic(call: Call, error: QueueNotFoundError) -> d.DequeuedMessages:
    if is_strict(call):
        raise error
    return d.DequeuedMessages([])


async def _wait(call: Call, body: d.Dequeue, worker: str) -> d.DequeuedMessages:
    """Wait until there is a message, the time is over, or the caller has gone."""
    gone = asyncio.ensure_future(disconnected(call))
    began = perf_counter()
    call.context.metrics.waits(1)
    try:
        found = await call.context.long_polls.wait(
            PollKey(body.topic, body.visibility_timeout_seconds, worker),
            body.count,
            body.wait_seconds,
            is_strict(call),
            gone,
        )
        return _delivered(call, found)
    finally:
        call.context.metrics.waits(-1)
        call.exchange.waited = perf_counter() - began
        gone.cancel()


async def disconnected(call: Call) -> None:
    """Returns when the caller has gone. The body is read, so no other event can arrive."""
    while (await call.receive())["type"] != "http.disconnect":
        pass


@endpoint(
    "POST",
    "/api/messages/{id}/ack",
    body=d.Held,
    answers={200: d.Settled},
    problems=(404, 409),
)
def ack_message(call: Call) -> Awaitable[d.Settled] | Pending:
    """Settle the message as done. 409 if the lease is lost."""
    if call.connection is not None:
        return _ack_alone(call)
    if not call.principal.unlimited("consume"):
        return _ack_checked(call)
    lease = message_id(call), int(call.body.lease_token)
    return Pending(call.context.call_batching.acks.put(None, lease, call.caller), _acked)


async def _ack_checked(call: Call) -> d.Settled:
    lease = await _held(call, call.body)
    await call.context.call_batching.acks.submit(None, lease, call.caller)
    return _acked(call)


async def _ack_alone(call: Call) -> d.Settled:
    """In the transaction of a call with an Idempotency-Key."""
    await call.run(write.ack(await _held(call, call.body)))
    return _acked(call)


def _acked(call: Call, _: None = None) -> d.Settled:
    call.context.count_settled(1)
    return d.Settled(id=call.path["id"], status="deleted", state="done")


@endpoint(
    "POST",
    "/api/messages/{id}/nack",
    body=d.Nack,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def nack_message(call: Call) -> d.Settled:
    """Report a failed attempt. The message is retried, or becomes a dead letter."""
    body: d.Nack = call.body
    lease = await _held(call, body)
    state = await call.run(write.nack(lease, body.error, body.delay_seconds))
    return await _settled(call, state)


@endpoint(
    "POST",
    "/api/messages/{id}/reject",
    body=d.Reject,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def reject_message(call: Call) -> d.Settled:
    """Make the message a dead letter without further attempts."""
    body: d.Reject = call.body
    lease = await _held(call, body)
    return await _settled(call, await call.run(write.reject(lease, body.error)))


@endpoint(
    "POST",
    "/api/messages/{id}/snooze",
    body=d.Snooze,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def snooze_message(call: Call) -> d.Settled:
    """Give the message back with a delay. The attempt does not count."""
    body: d.Snooze = call.body
    lease = await _held(call, body)
    return await _settled(call, await call.run(write.snooze(lease, body.delay_seconds)))


@endpoint(
    "POST",
    "/api/messages/{id}/extend",
    body=d.Extend,
    answers={200: d.Extended},
    problems=(404, 409),
)
async def extend_message(call: Call) -> d.Extended:
    """Extend the lease, from now on."""
    body: d.Extend = call.body
    lease = await _held(call, body)
    until = await call.run(write.extend(lease, body.visibility_timeout_seconds))
    return d.Extended(call.path["id"], until)


async def _held(call: Call, body: d.Held) -> tuple[int, int]:
    """The lease of a call. The key must be allowed to consume its queue."""
    lease = message_id(call), int(body.lease_token)
    await require_queues(call, [lease[0]])
    return lease


def message_id(call: Call) -> int:
    text = call.path["id"]
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise InvalidValueError(
        f"{text!r:.100} is not an id",
        hint="Ids are strings of up to 18 digits, as in the response that had it.",
        field="id",
    )


async def require_queues(
    call: Call, ids: Sequence[int], connection: AnyConnection | None = None
) -> None:
    """Check that the key may consume the queues of messages. A key for all queues may."""
    if call.principal.unlimited("consume"):
        return
    found = await call.context.database.run(read.queues_of(ids), connection or call.connection)
    for id in ids:
        if id not in found:
            raise LeaseLostError(f"the lease on message {id} is lost", id=id)
        call.require_of(f"message {id}", "consume", found[id])


async def _settled(call: Call, state: SettledState) -> d.Settled:
    call.context.count_settled(1)
    status: Status = STATUS[state]
    if state == "dead":
        # Its queue may keep dead letters or not.
        status = status_of(await call.run(read.message(message_id(call))))
    return d.Settled(id=call.path["id"], status=status, state=state)
