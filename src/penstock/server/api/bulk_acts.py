"""Bulk acts on all messages that match a filter: request one, read its progress, stop it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from penstock.commands.write.bulk_acts import request_bulk_act, stop_bulk_act
from penstock.model.bulk_act import BulkAct, BulkStatus, BulkVerb
from penstock.model.message_page import BrowseState, MessageFilter
from penstock.server import fields as f
from penstock.server.auth.bulk_access import operated_act, require_queues
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("bulk acts")


class NewBulkAct(Struct, forbid_unknown_fields=True, kw_only=True):
    """The action, and the filter of the messages. Without topics, it applies to all topics."""

    act: Literal["cancel", "redrive", "replay", "move", "set_priority"]
    state: BrowseState
    topics: Annotated[list[f.Name], Meta(min_length=1, max_length=1000)] | None = None
    key: f.Key | None = None
    error: f.Filter | None = None
    worker: f.WorkerName | None = None
    older_than_seconds: f.Age | None = None
    younger_than_seconds: f.Age | None = None
    to_topic: f.Name | None = None
    priority: Annotated[int, Meta(ge=-9, le=9)] | None = None
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    max_count: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    dry_run: bool = False


class BulkActDocument(Struct, kw_only=True):
    """An act and its progress. `expected`: how many messages matched at the request, if known."""

    id: str
    act: BulkVerb
    status: BulkStatus
    looked: int
    matched: int
    changed: int
    expected: int | None
    error_message: str | None
    topics: list[str] | None
    state: str
    to_topic: str | None
    priority: int | None
    per_second: float | None
    max_count: int | None
    dry_run: bool
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None


@endpoint(
    "POST", "/api/bulk-acts", body=NewBulkAct, answers={202: BulkActDocument}, problems=(404,)
)
async def create_bulk_act(call: Call) -> BulkActDocument:
    """Have a server act on all messages that match a filter. Read the progress by its id."""
    body: NewBulkAct = call.body
    topics = None if body.topics is None else [t.removesuffix(".dlq") for t in body.topics]
    require_queues(call.principal, topics, body.to_topic)
    now = datetime.now(UTC)
    command = request_bulk_act(
        body.act,
        body.state,
        topics,
        MessageFilter(
            key=body.key,
            error=body.error,
            worker=body.worker,
            enqueued_before=_ago(now, body.older_than_seconds),
            enqueued_after=_ago(now, body.younger_than_seconds),
        ),
        to_queue=body.to_topic,
        priority=body.priority,
        per_second=body.per_second,
        max_count=body.max_count,
        dry_run=body.dry_run,
        created_by=call.principal.name,
    )
    queue = topics[0] if topics is not None and len(topics) == 1 else None
    id = await call.act(
        command, "bulk act", queue, verb=body.act, dry_run=body.dry_run, queue=queue
    )
    call.context.bulk_runner.nudge()
    return _document(await operated_act(call.principal, call.run, id))


@endpoint("GET", "/api/bulk-acts/{id}", answers={200: BulkActDocument}, problems=(404,))
async def show_bulk_act(call: Call) -> BulkActDocument:
    """An act and its progress."""
    return _document(await operated_act(call.principal, call.run, call.path["id"]))


@endpoint("POST", "/api/bulk-acts/{id}/stop", answers={202: BulkActDocument}, problems=(404,))
async def stop_act(call: Call) -> BulkActDocument:
    """Stop an act before its next step. Its changes so far stay."""
    found = await operated_act(call.principal, call.run, call.path["id"])
    await call.act(stop_bulk_act(found.id), "stop bulk act", found.id)
    call.context.bulk_runner.nudge()
    return _document(await operated_act(call.principal, call.run, found.id))


def _document(act: BulkAct) -> BulkActDocument:
    fields = {name: getattr(act, name) for name in BulkAct.__slots__}
    queues = fields.pop("queues")
    return BulkActDocument(
        topics=None if queues is None else list(queues), to_topic=fields.pop("to_queue"), **fields
    )


def _ago(now: datetime, seconds: int | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)
