"""Messages: by the page, with filters; and one, as a story."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

from penstock.commands import read
from penstock.commands.write.progress import get_progress
from penstock.model.message import Message
from penstock.model.message_page import BrowseState, MessageFilter
from penstock.server.transport.problems import HttpError
from penstock.server.ui.pages.queues import shown
from penstock.server.ui.timeline import timeline
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
STATES: Final = get_args(BrowseState)
# How long ago a message was enqueued: at least, or at most.
AGES: Final = {
    "": None,
    "1 min": 60,
    "10 min": 600,
    "1 h": 3600,
    "6 h": 21600,
    "1 d": 86400,
    "7 d": 604800,
}


@pages("/messages")
async def messages(visit: Visit) -> View:
    state = visit.asked_one("state", STATES)
    queue = visit.asked("queue")
    filter = _filter(visit)
    found = await visit.run(
        read.browse(
            state,  # type: ignore[arg-type]  # one of STATES, as checked
            await readable(visit, queue),
            filter,
            place=visit.asked("place"),
        )
    )
    snapshot = await visit.look("queues")
    data = {
        "state": state,
        "queue": queue,
        "filter": asdict(filter),
        "older": visit.asked("older"),
        "younger": visit.asked("younger"),
        "messages": shown(visit, found.rows),
        "looked": found.looked,
        "next": found.next,
        "place": visit.asked("place"),
        "queues": [queue.name for queue in snapshot.queues],
    }
    return View("messages.html", "Messages", data)


async def readable(visit: Visit, queue: str | None) -> list[str] | None:
    """The queues to look into; None is all."""
    if queue is not None:
        name = queue.removesuffix(".dlq")
        visit.principal.require("read", name)
        await visit.run(read.queue(name))
        return [name]
    if visit.principal.is_admin:
        return None
    return [queue.name for queue in (await visit.look("queues")).queues]


def _filter(visit: Visit) -> MessageFilter:
    now = datetime.now(UTC)
    return MessageFilter(
        key=visit.asked("key"),
        error=visit.asked("error"),
        worker=visit.asked("worker"),
        enqueued_before=_age(visit, "older", now),
        enqueued_after=_age(visit, "younger", now),
    )


def _age(visit: Visit, name: str, now: datetime) -> datetime | None:
    seconds = AGES[visit.asked_one(name, tuple(AGES))]
    return None if seconds is None else now - timedelta(seconds=seconds)


@pages("/messages/{id}")
async def message(visit: Visit) -> View:
    found = await find(visit)
    data = {
        "message": document(visit, found),
        "story": timeline(found, datetime.now(UTC)),
        "redacted": visit.redacts,
        "can": possible(found),
        "progress": None if visit.redacts else await visit.run(get_progress(found.id)),
        "batch_id": _batch_id(found),
    }
    return View("message.html", f"Message {found.id}", data)


def _batch_id(message: Message) -> int | None:
    id = message.headers.get("penstock-batch")
    return id if isinstance(id, int) else None


async def find(visit: Visit) -> Message:
    """The message that the path names, if the visitor may see it."""
    text = visit.path["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(404, "MessageNotFound", f"{text!r:.50} is not the id of a message")
    found = await visit.run(read.message(int(text)))
    visit.principal.require_of(f"message {found.id}", "read", found.queue)
    return found


def document(visit: Visit, message: Message) -> dict[str, Any]:
    """The message, as far as it may be seen. JSON has no bytes: those go as hex."""
    fields = {name: getattr(message, name) for name in Message.__slots__}
    payload = fields["payload"]
    fields["payload_kind"] = "bytes" if isinstance(payload, bytes) else "json"
    fields["payload_bytes"] = len(payload) if isinstance(payload, bytes) else None
    if isinstance(payload, bytes):
        fields["payload"] = payload.hex()
    if visit.redacts:
        fields["payload"], fields["headers"] = None, {}
    return fields


def possible(message: Message) -> list[str]:
    """What an operator can do to a message in its state."""
    if message.state == "dead" and message.original_queue is not None:
        return ["requeue", "cancel"]
    if message.finished_at is not None:
        return ["replay"]
    return ["cancel"]
