"""Batches of messages, and the results and the progress of tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct

from penstock.commands import read
from penstock.commands.read.batch_queries import batches
from penstock.commands.write.batches import cancel_batch, get_batch
from penstock.commands.write.progress import get_progress
from penstock.commands.write.results import get_outcome, get_result_queue
from penstock.errors import MessageNotFoundError, ResultNotFoundError
from penstock.model.batch import BatchProgress
from penstock.server import fields as f
from penstock.server.api.leases import message_id
from penstock.server.transport.problems import HttpError
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("batches")


class Newest(Struct, forbid_unknown_fields=True):
    cursor: f.Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="how many batches")] = 100


@dataclass(frozen=True, slots=True)
class Batch(BatchProgress):
    """A batch, and how many of its messages have ended, and how."""

    id: str  # type: ignore[assignment]  # JavaScript cannot hold all ids as numbers


class Batches(Struct):
    items: list[Batch]
    next: str | None


class CancelledBatch(Struct):
    """The number of messages that were cancelled now, and whether others are cancelled soon."""

    cancelled: int
    more: bool


class Outcome(Struct, kw_only=True):
    """The end of the call of a task. `result` is the value that the task returned."""

    id: str
    state: str
    result: Raw | None
    error: str | None


class TaskProgress(Struct, kw_only=True):
    """The latest report of a task. `fraction` is from 0 to 1. `log` has the last 100 lines."""

    id: str
    attempt: int
    fraction: float | None
    note: str | None
    log: list[str]
    updated_at: datetime


@endpoint("GET", "/api/batches", query=Newest, answers={200: Batches})
async def list_batches(call: Call) -> Batches:
    """The batches, the newest first. Their messages may be in any topics."""
    query: Newest = call.query
    before = None if query.cursor is None else int(query.cursor)
    found = await call.run(batches(query.limit, before=before))
    more = str(found[-1].id) if len(found) == query.limit else None
    return Batches([_document(each) for each in found], more)


@endpoint("GET", "/api/batches/{id}", answers={200: Batch}, problems=(404,))
async def show_batch(call: Call) -> Batch:
    """One batch."""
    return _document(await call.run(get_batch(message_id(call))))


@endpoint("POST", "/api/batches/{id}/cancel", answers={200: CancelledBatch}, problems=(404,))
async def cancel_batch_members(call: Call) -> CancelledBatch:
    """Cancel all messages of a batch that have not ended: 1,000 now, and the others soon.

    If `more` is true, workers and the server cancel the others.
    """
    id = message_id(call)
    done = await call.act(cancel_batch(id), "cancel batch", str(id))
    if done.more:
        call.context.background.run_soon()
    return CancelledBatch(done.members, done.more)


@endpoint("GET", "/api/messages/{id}/result", answers={200: Outcome}, problems=(404,))
async def show_result(call: Call) -> Outcome:
    """The result of the task that a message called. 404 if none is kept."""
    id = message_id(call)
    await _check_readable(call, id)
    outcome = await call.run(get_outcome(id))
    if outcome is None:
        raise ResultNotFoundError(f"message {id} has no result", id=id)
    value = None if outcome.value is None else Raw(outcome.value.encode())
    return Outcome(id=str(id), state=outcome.state, result=value, error=outcome.error)


@endpoint("GET", "/api/messages/{id}/progress", answers={200: TaskProgress}, problems=(404,))
async def show_progress(call: Call) -> TaskProgress:
    """The progress of the task that a message called. 404 if it has reported none."""
    id = message_id(call)
    await _check_readable(call, id)
    found = await call.run(get_progress(id))
    if found is None:
        raise HttpError(
            404,
            "ProgressNotFound",
            f"message {id} has no progress",
            hint="A task reports it with `current().progress()`.",
            id=id,
        )
    return TaskProgress(id=str(id), **{**asdict(found), "log": list(found.log)})


async def _check_readable(call: Call, id: int) -> None:
    call.require_of(f"message {id}", "read", await _queue_of(call, id))


async def _queue_of(call: Call, id: int) -> str:
    """The queue of a message, or of its result if the queue keeps no history."""
    try:
        return (await call.run(read.message(id))).queue
    except MessageNotFoundError:
        queue = await call.run(get_result_queue(id))
        if queue is None:
            raise
        return queue


def _document(found: BatchProgress) -> Batch:
    return Batch(**{**asdict(found), "id": str(found.id)})
