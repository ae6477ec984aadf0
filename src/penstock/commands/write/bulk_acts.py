"""Act on all messages that match a filter, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, nothing, scalar
from penstock.model.bulk_act import BulkVerb
from penstock.model.message_page import MessageFilter

QUEUE: Final = "penstock.bulk_acts"
"""The internal queue whose messages carry the ids of acts to the servers."""
_REQUEST: Final = call(
    "request_bulk_act",
    "request_bulk_act::text",
    act="text",
    state="text",
    queues="text[]",
    key="text",
    error="text",
    worker="text",
    enqueued_before="timestamptz",
    enqueued_after="timestamptz",
    to_queue="text",
    priority="integer",
    per_second="numeric",
    max_count="bigint",
    dry_run="boolean",
    in_background="boolean",
    created_by="text",
)
_STEP: Final = call("step_bulk_act", "status, pause_seconds", id="uuid")
_STOP: Final = call("stop_bulk_act", id="uuid")
_FAIL: Final = call("fail_bulk_act", id="uuid", error_message="text")


class Step(NamedTuple):
    """The state of an act after a step, and the seconds to wait before the next step."""

    status: str
    pause_seconds: float

    @property
    def is_last(self) -> bool:
        return self.status not in ("pending", "running")


def request_bulk_act(
    act: BulkVerb,
    state: str,
    queues: Sequence[str] | None = None,
    filter: MessageFilter | None = None,
    *,
    to_queue: str | None = None,
    priority: int | None = None,
    per_second: float | None = None,
    max_count: int | None = None,
    dry_run: bool = False,
    in_background: bool = True,
    created_by: str | None = None,
) -> Command[str]:
    """Request an act. The result is its id. A server carries it out in the background."""
    chosen = filter or MessageFilter()
    params = {
        "act": check.text("act", act),
        "state": check.text("state", state),
        "queues": None if queues is None else [check.text("queues", name) for name in queues],
        "key": check.optional_text("key", chosen.key),
        "error": check.optional_text("error", chosen.error),
        "worker": check.optional_text("worker", chosen.worker),
        "enqueued_before": chosen.enqueued_before,
        "enqueued_after": chosen.enqueued_after,
        "to_queue": check.optional_text("to_queue", to_queue),
        "priority": check.optional_whole("priority", priority),
        "per_second": check.optional_number("per_second", per_second),
        "max_count": check.optional_whole("max_count", max_count, check.INT8),
        "dry_run": check.truth("dry_run", dry_run),
        "in_background": check.truth("in_background", in_background),
        "created_by": check.optional_text("created_by", created_by),
    }
    return Command(_REQUEST, params, scalar)


def step_bulk_act(id: str) -> Command[Step]:
    """Carry out the next step of an act."""

    def decode(rows: Rows) -> Step:
        return Step(rows[0][0], rows[0][1] or 0.0)

    return Command(_STEP, _params(id), decode)


def stop_bulk_act(id: str) -> Command[bool]:
    """Stop an act before its next step. False if it has ended."""
    return Command(_STOP, _params(id), scalar)


def fail_bulk_act(id: str, error_message: str) -> Command[None]:
    """End an act with an error."""
    return Command(_FAIL, {**_params(id), "error_message": error_message}, nothing)


def _params(id: str) -> dict[str, Any]:
    try:
        return {"id": str(UUID(id))}
    except (ValueError, TypeError, AttributeError):
        raise check.refuse("id", id, "the id of a bulk act") from None
