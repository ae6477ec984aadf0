"""The list of messages with filters, and the page of one message."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args
from urllib.parse import parse_qs

from penstock.commands import read
from penstock.commands.read.message_queries import PAGE
from penstock.commands.write.progress import get_progress
from penstock.errors import PenstockError
from penstock.model.bulk_act import STATES_OF
from penstock.model.message import Message
from penstock.model.message_page import BrowseState, MessageFilter, MessagePage
from penstock.server.auth.visible_activity import visible_activity
from penstock.server.transport.problems import HttpError
from penstock.server.ui.formats import shallow
from penstock.server.ui.pages.queues import shown
from penstock.server.ui.timeline import timeline
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
STATES: Final = get_args(BrowseState)
LONGEST_LIST: Final = 4000
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
# The age of a message: at least, or at most.
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
    filter = message_filter(visit)
    found = await _browse(visit, visit.asked("place"))
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
        "verbs": [verb for verb, states in STATES_OF.items() if state in states],
    }
    return View("messages.html", "Messages", data)


async def _browse(visit: Visit, place: str | None, page: int = PAGE) -> MessagePage:
    """A page of the list that the address describes."""
    state = visit.asked_one("state", STATES)
    queues = await readable(visit, visit.asked("queue"))
    return await visit.run(
        read.browse(
            state,  # type: ignore[arg-type]  # one of STATES, as checked
            queues,
            message_filter(visit),
            place=place,
            page=page,
        )
    )


async def readable(visit: Visit, queue: str | None) -> list[str] | None:
    """The queues to search. None means all."""
    if queue is not None:
        name = queue.removesuffix(".dlq")
        visit.principal.require("read", name)
        await visit.run(read.queue(name))
        return [name]
    return None if visit.principal.is_admin else await queue_names(visit)


async def queue_names(visit: Visit) -> list[str]:
    """The queues that the visitor may read.

    Not from the snapshot, which is some seconds old: a search finds messages of new queues, too.
    """
    queues = await visit.run(read.queues())
    return [queue.name for queue in queues if visit.may("read", queue.name)]


def message_filter(visit: Visit) -> MessageFilter:
    """The filter in the address or the form."""
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
    noted = await visit.run(read.message_activity(found.id))
    acts = visible_activity(visit.principal, noted)
    data = {
        "message": document(visit, found),
        "story": timeline(found, datetime.now(UTC), acts if visit.may("operate") else ()),
        "redacted": visit.redacts,
        "can": possible(found),
        "can_copy": can_copy(visit, found),
        "trace_url": None if visit.redacts else trace_url(visit, found),
        "neighbours": await _neighbours(visit, found.id),
        "progress": None if visit.redacts else await visit.run(get_progress(found.id)),
        "batch_id": _batch_id(found),
    }
    return View("message.html", f"Message {found.id}", data)


async def _neighbours(visit: Visit, id: int) -> dict[str, Any] | None:
    """The messages before and after this one in the list that the visitor came from."""
    text = visit.asked("list")
    if text is None:
        return None
    listed = copy(visit)
    listed.form = parse_qs(text[:LONGEST_LIST], max_num_fields=50)
    try:
        found = await _browse(listed, listed.asked("place"))
        ids = [row.id for row in found.rows]
        at = ids.index(id) if id in ids else None
        after = ids[at + 1 : at + 2] if at is not None else []
        if at == len(ids) - 1 and found.next is not None:
            after = [row.id for row in (await _browse(listed, found.next, 1)).rows]
    except (HttpError, PenstockError, ValueError):
        # The list is a part of the address, which may contain anything.
        return None
    before = ids[at - 1] if at else None
    return {"list": text, "before": before, "after": after[0] if after else None}


def trace_url(visit: Visit, message: Message) -> str | None:
    """The link to the trace in which the message was enqueued."""
    found = TRACEPARENT.fullmatch(str(message.headers.get("traceparent", "")))
    template = visit.context.settings.trace_url
    return template.replace("{trace_id}", found[1]) if found and template else None


def can_copy(visit: Visit, message: Message) -> bool:
    """Whether the visitor may enqueue an edited copy: the payload is JSON and visible."""
    queue = message.original_queue or message.queue
    allowed = visit.may("operate", queue) and visit.may("enqueue", queue)
    return allowed and not visit.redacts and not isinstance(message.payload, bytes)


def _batch_id(message: Message) -> int | None:
    id = message.headers.get("penstock-batch")
    return id if isinstance(id, int) else None


async def find(visit: Visit) -> Message:
    """The message of the path, if the visitor may see it."""
    text = visit.path["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(404, "MessageNotFound", f"{text!r:.50} is not the id of a message")
    found = await visit.run(read.message(int(text)))
    visit.principal.require_of(f"message {found.id}", "read", found.queue)
    return found


def document(visit: Visit, message: Message) -> dict[str, Any]:
    """The message without hidden fields, with bytes as hex for JSON."""
    fields = {name: getattr(message, name) for name in Message.__slots__}
    payload = fields["payload"]
    fields["payload_kind"] = "bytes" if isinstance(payload, bytes) else "json"
    fields["payload_bytes"] = len(payload) if isinstance(payload, bytes) else None
    if isinstance(payload, bytes):
        fields["payload"] = payload.hex()
    else:
        fields["payload"] = shallow(payload)
    fields["headers"] = {name: shallow(value) for name, value in message.headers.items()}
    if visit.redacts:
        fields["payload"], fields["headers"] = None, {}
    return fields


def possible(message: Message) -> list[str]:
    """The actions for a message in its state."""
    if message.state == "dead" and message.original_queue is not None:
        return ["requeue", "cancel"]
    if message.finished_at is not None:
        return ["replay"]
    return ["cancel"]
