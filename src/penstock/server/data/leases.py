"""Messages out: dequeue, and what only the holder of a lease may do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from penstock import insights, operations
from penstock.connections_async import AnyConnection
from penstock.errors import LeaseLostError, QueueNotFoundError
from penstock.message import SettledState
from penstock.server.data import documents as d
from penstock.server.data.dispatch import LaneKey
from penstock.server.data.rendering import STATUS, status_of
from penstock.server.data.together import Claim, Want
from penstock.server.fields import Status
from penstock.server.routing import Call, Endpoints, Soon
from penstock.server.topics import is_strict

endpoint: Final = Endpoints("messages")


def _dequeue_soon(call: Call) -> Soon | None:
    body: d.Dequeue = call.body
    if body.wait_seconds:
        return None
    call.require("consume", body.topic)
    want = Want(body.topic, body.visibility_timeout_seconds, _worker(call, body))
    claim = Claim(body.count, call)
    return Soon(call.context.together.claims.put(want, claim, call.caller), _delivered)


def _worker(call: Call, body: d.Dequeue) -> str:
    return body.worker or call.principal.name


def _delivered(call: Call, found: list[d.Message]) -> d.Messages:
    if call.is_gone:
        call.context.together.give_back(found)
        return d.Messages([])
    call.context.metrics.moved("delivered", len(found))
    return d.Messages(found)


@endpoint(
    "POST",
    "/api/messages/dequeue",
    body=d.Dequeue,
    answers={200: d.Messages},
    problems=(404,),
    soon=_dequeue_soon,
)
async def dequeue_messages(call: Call) -> d.Messages:
    """Claim messages under a lease; with `wait_seconds`, as soon as there is one.

    A topic that does not exist is empty, unless the call has `Prefer: handling=strict`.
    """
    body: d.Dequeue = call.body
    call.require("consume", body.topic)
    worker = _worker(call, body)
    if body.wait_seconds:
        found = await _wait(call, body, worker)
    else:
        found = await _claim(call, body, worker)
    return _delivered(call, found)


async def _claim(call: Call, body: d.Dequeue, worker: str) -> list[d.Message]:
    want = Want(body.topic, body.visibility_timeout_seconds, worker)
    try:
        claim = Claim(body.count, call)
        return await call.context.together.claims.submit(want, claim, call.caller)
    except QueueNotFoundError:
        if is_strict(call):
            raise
        return []


async def _wait(call: Call, body: d.Dequeue, worker: str) -> list[d.Message]:
    """Until there is a message, the time is over, or the caller has gone."""
    gone = asyncio.ensure_future(_disconnected(call))
    began = perf_counter()
    call.context.metrics.waits(1)
    try:
        return await call.context.dispatcher.wait(
            LaneKey(body.topic, body.visibility_timeout_seconds, worker),
            body.count,
            body.wait_seconds,
            is_strict(call),
            gone,
        )
    finally:
        call.context.metrics.waits(-1)
        call.exchange.waited = perf_counter() - began
        gone.cancel()


async def _disconnected(call: Call) -> None:
    """Returns when the caller has gone: the body is read, so nothing else can come."""
    while (await call.receive())["type"] != "http.disconnect":
        pass


def _ack_soon(call: Call) -> Soon | None:
    if not call.principal.unlimited("consume"):
        return None
    lease = message_id(call), int(call.body.lease_token)
    return Soon(call.context.together.acks.put(None, lease, call.caller), _acked)


def _acked(call: Call, _: None = None) -> d.Settled:
    call.context.metrics.moved("settled", 1)
    return d.Settled(id=call.path["id"], status="deleted", state="done")


@endpoint(
    "POST",
    "/api/messages/{id}/ack",
    body=d.Held,
    answers={200: d.Settled},
    problems=(404, 409),
    soon=_ack_soon,
)
async def ack_message(call: Call) -> d.Settled:
    """Done: the message is finished. 409 if the lease is no longer held."""
    lease = await _held(call, call.body)
    await call.context.together.acks.submit(None, lease, call.caller)
    return _acked(call)


@endpoint(
    "POST",
    "/api/messages/{id}/nack",
    body=d.Nack,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def nack_message(call: Call) -> d.Settled:
    """Give it back with an error: it is tried again, or becomes a dead letter."""
    body: d.Nack = call.body
    lease = await _held(call, body)
    state = await call.run(operations.nack(lease, body.error, body.delay_seconds))
    return await _settled(call, state)


@endpoint(
    "POST",
    "/api/messages/{id}/reject",
    body=d.Reject,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def reject_message(call: Call) -> d.Settled:
    """Straight to the dead letters: no further attempt would help."""
    body: d.Reject = call.body
    lease = await _held(call, body)
    return await _settled(call, await call.run(operations.reject(lease, body.error)))


@endpoint(
    "POST",
    "/api/messages/{id}/snooze",
    body=d.Snooze,
    answers={200: d.Settled},
    problems=(404, 409),
)
async def snooze_message(call: Call) -> d.Settled:
    """Put it back for later, without counting the attempt."""
    body: d.Snooze = call.body
    lease = await _held(call, body)
    return await _settled(call, await call.run(operations.snooze(lease, body.delay_seconds)))


@endpoint(
    "POST",
    "/api/messages/{id}/extend",
    body=d.Extend,
    answers={200: d.Extended},
    problems=(404, 409),
)
async def extend_message(call: Call) -> d.Extended:
    """Hold it longer, from now on."""
    body: d.Extend = call.body
    lease = await _held(call, body)
    until = await call.run(operations.extend(lease, body.visibility_timeout_seconds))
    return d.Extended(call.path["id"], until)


async def _held(call: Call, body: d.Held) -> tuple[int, int]:
    """The lease of a call; its queue must be one that the key may consume."""
    lease = message_id(call), int(body.lease_token)
    await require_queues(call, [lease[0]])
    return lease


def message_id(call: Call) -> int:
    """Ids are text here: one that is no number is the id of no message."""
    text = call.path["id"]
    known = text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if known else 0


async def require_queues(
    call: Call, ids: Sequence[int], connection: AnyConnection | None = None
) -> None:
    """A key for some queues settles messages of these only; one for all needs no look."""
    if call.principal.unlimited("consume"):
        return
    found = await call.context.database.run(insights.queues_of(ids), connection)
    for id in ids:
        if id not in found:
            raise LeaseLostError(f"the lease on message {id} is lost", id=id)
        call.require_of(f"message {id}", "consume", found[id])


async def _settled(call: Call, state: SettledState) -> d.Settled:
    call.context.metrics.moved("settled", 1)
    status: Status = STATUS[state]
    if state == "dead":
        # Whether it went to the dead letters, or its queue has none.
        status = status_of(await call.run(insights.message(message_id(call))))
    return d.Settled(id=call.path["id"], status=status, state=state)
