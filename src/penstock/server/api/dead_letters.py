"""Dead letters grouped by their errors."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from penstock.commands import read
from penstock.server import fields as f
from penstock.server.transport.routing import Call, Endpoints

endpoint: Final = Endpoints("messages")


class ErrorsOf(Struct, forbid_unknown_fields=True):
    topic: f.Name | None = None


class ErrorGroup(Struct, kw_only=True):
    """Dead letters of a topic with the same error, and the range of their ids, for a redrive."""

    topic: str
    error: str | None
    count: int
    first_id: str
    last_id: str
    first_dead_at: datetime
    last_dead_at: datetime


class ErrorGroups(Struct):
    """The newest 5,000 dead letters of a topic are counted."""

    items: list[ErrorGroup]
    next: str | None = None


@endpoint(
    "GET",
    "/api/dead-letters/errors",
    query=ErrorsOf,
    answers={200: ErrorGroups},
    problems=(404,),
)
async def list_dead_letter_errors(call: Call) -> ErrorGroups:
    """The dead letters grouped by their last error, of one topic or of all."""
    topic = call.query.topic
    if topic is not None:
        topic = topic.removesuffix(".dlq")
        call.require("read", topic)
    found = await call.run(read.dead_errors(topic))
    return ErrorGroups(
        [
            ErrorGroup(
                topic=each.queue,
                error=each.error,
                count=each.count,
                first_id=str(each.first_id),
                last_id=str(each.last_id),
                first_dead_at=each.first_dead_at,
                last_dead_at=each.last_dead_at,
            )
            for each in found
            if call.principal.may("read", each.queue)
        ]
    )
