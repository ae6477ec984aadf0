"""Reads of messages, and actions on one message: requeue, replay, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.commands import read, write
from penstock.errors import MessageNotFoundError
from penstock.model.message import Message
from penstock.server.api import documents as d
from penstock.server.api.leases import message_id
from penstock.server.api.rendering import FINISHED, LIVE, document
from penstock.server.api.topic_creation import check_new_topic
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("messages")


@endpoint("GET", "/api/messages", query=d.Find, answers={200: d.Page})
async def list_messages(call: Call) -> d.Page:
    """List messages by id, of every status or of one.

    Finished messages are listed as long as the topic keeps its history.
    """
    query: d.Find = call.query
    queues = await _queues(call, query.topic)
    now = datetime.now(UTC)

    async def page(*, finished: bool) -> tuple[list[Message], bool]:
        states = (FINISHED if finished else LIVE).get(query.status) if query.status else None
        command = read.page(
            finished=finished,
            queues=queues,
            states=states,
            key=query.key,
            error=query.error,
            enqueued_before=_ago(now, query.older_than_seconds),
            enqueued_after=_ago(now, query.younger_than_seconds),
            after=int(query.cursor) if query.cursor else None,
            limit=query.limit,
            max_bytes=call.context.settings.answer_bytes,
            internal=call.principal.is_admin,
        )
        return await call.run(command)

    if query.status is not None:
        found, has_more = await page(finished=query.status in FINISHED)
    else:
        # Live messages first: one that finishes between the two is in both.
        found, has_more = _merged(
            await page(finished=False), await page(finished=True), query.limit
        )
    next_cursor = str(found[-1].id) if has_more else None
    return d.Page([document(message) for message in found], next_cursor)


Part = tuple[Sequence[Message], bool]


def _merged(live: Part, finished: Part, limit: int) -> tuple[list[Message], bool]:
    """One of two pages. If one of them continues, ids after its end are left to the next page."""
    by_id = {each.id: each for part, _ in (live, finished) for each in part}
    ends = [part[-1].id for part, has_more in (live, finished) if has_more]
    ids = [id for id in sorted(by_id) if not ends or id <= min(ends)]
    return [by_id[id] for id in ids[:limit]], bool(ends) or len(ids) > limit


@endpoint("GET", "/api/messages/{id}", answers={200: d.Message}, problems=(404,))
async def show_message(call: Call) -> d.Message:
    """One message, live or finished, with its attempts."""
    found = await _message(call)
    call.require_of(f"message {found.id}", "read", found.queue)
    return document(found, with_attempts=True)


@endpoint(
    "POST",
    "/api/messages/{id}/requeue",
    answers={200: d.Settled},
    problems=(404, 409, 429),
)
async def requeue_message(call: Call) -> d.Settled:
    """Redrive a dead letter into its topic, with all its retries."""
    found = await _message(call)
    call.require_of(f"message {found.id}", "operate", found.queue)
    if found.state != "dead" or found.original_queue is None:
        raise HttpError(
            409,
            "NotADeadLetter",
            f"message {found.id} is {found.state}, not a dead letter",
            hint="POST /api/messages/{id}/replay enqueues a copy of a finished message.",
            id=found.id,
            state=found.state,
        )
    command = write.redrive(found.original_queue, ids=[found.id])
    count = await call.act(command, "requeue", found.original_queue, id=str(found.id))
    if not count:
        raise MessageNotFoundError(
            f"message {found.id} is being settled by another caller", id=found.id
        )
    return d.Settled(id=str(found.id), status="pending", state="ready")


@endpoint(
    "POST",
    "/api/messages/{id}/replay",
    body=d.Replay,
    answers={201: d.Enqueued},
    problems=(404, 409, 429),
)
async def replay_message(call: Call) -> d.Enqueued:
    """Enqueue a copy of a finished message."""
    found = await _message(call)
    body: d.Replay = call.body
    call.require_of(f"message {found.id}", "operate", found.queue)
    call.require("operate", body.topic or found.queue)
    check_new_topic(body.topic or found.queue)
    if found.finished_at is None or found.original_queue is not None:
        raise HttpError(
            409,
            "NotFinished",
            f"message {found.id} is {found.state}, not finished",
            hint="Only finished messages can be replayed. POST /api/messages/{id}/requeue puts a"
            " dead letter back.",
            id=found.id,
            state=found.state,
        )
    command = write.replay(found.id, body.topic)
    made = await call.act(command, "replay", body.topic or found.queue, id=str(found.id))
    return d.Enqueued(str(made))


@endpoint(
    "POST",
    "/api/messages/{id}/cancel",
    answers={200: d.Settled},
    problems=(404,),
)
async def cancel_message(call: Call) -> d.Settled:
    """Cancel a message, also a leased one."""
    found = await _message(call)
    call.require_of(f"message {found.id}", "operate", found.queue)
    if found.finished_at is not None and found.original_queue is None:
        raise MessageNotFoundError(
            f"message {found.id} is {found.state}, and only unfinished messages can be cancelled",
            id=found.id,
        )
    await call.act(write.cancel(found.id), "cancel", found.queue, id=str(found.id))
    return d.Settled(id=str(found.id), status="deleted", state="cancelled")


async def _message(call: Call) -> Message:
    return await call.run(read.message(message_id(call), as_text=True))


async def _queues(call: Call, topic: str | None) -> list[str] | None:
    """The queues to search. None means all."""
    if topic is not None:
        call.require("read", topic)
        return [topic]
    if call.principal.unlimited("read"):
        return None
    names = call.principal.only("read", (q.name for q in await call.run(read.queues())))
    return [each for name in names for each in (name, f"{name}.dlq")]


def _ago(now: datetime, seconds: int | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)
