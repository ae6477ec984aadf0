"""Change messages by id or by filter, without a lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.commands import arguments as check
from penstock.commands.command import Command, call, scalar
from penstock.model.message import Duration, LiveState

_CANCEL: Final = call("cancel", id="bigint")
_CANCEL_MANY: Final = call("cancel_many", ids="bigint[]")
_REDRIVE: Final = call(
    "redrive",
    queue="text",
    ids="bigint[]",
    error_like="text",
    older_than="interval",
    id_from="bigint",
    id_to="bigint",
    max_count="integer",
    per_second="numeric",
    dry_run="boolean",
)
_MOVE: Final = call("move", ids="bigint[]", queue="text")
_SET_PRIORITY: Final = call("set_priority", ids="bigint[]", priority="integer")
_REPLAY: Final = call("replay", id="bigint", queue="text")


def cancel(id: int) -> Command[LiveState]:
    """Cancel a message that is waiting, leased or dead.

    See `Client.cancel` for the parameters and the result.
    """
    return Command(_CANCEL, {"id": check.whole("id", id, check.INT8)}, scalar)


def cancel_many(ids: Sequence[int]) -> Command[int]:
    """Cancel messages that are waiting, leased or dead. The result is their number."""
    return Command(
        _CANCEL_MANY, {"ids": [check.whole("ids", id, check.INT8) for id in ids]}, scalar
    )


def redrive(
    queue: str,
    *,
    ids: Sequence[int] | None = None,
    error_like: str | None = None,
    older_than: Duration | None = None,
    id_from: int | None = None,
    id_to: int | None = None,
    max_count: int | None = None,
    per_second: float | None = None,
    dry_run: bool = False,
) -> Command[int]:
    """Put dead letters back into their queue.

    See `Client.redrive` for the parameters and the result.
    """
    params = {
        "queue": check.text("queue", queue),
        "ids": None if ids is None else [check.whole("ids", id, check.INT8) for id in ids],
        "error_like": check.optional_text("error_like", error_like),
        "older_than": check.optional_duration("older_than", older_than),
        "id_from": check.optional_whole("id_from", id_from, check.INT8),
        "id_to": check.optional_whole("id_to", id_to, check.INT8),
        "max_count": check.optional_whole("max_count", max_count),
        "per_second": check.optional_number("per_second", per_second),
        "dry_run": check.truth("dry_run", dry_run),
    }
    return Command(_REDRIVE, params, scalar)


def replay(id: int, queue: str | None = None) -> Command[int]:
    """Enqueue a copy of a finished message.

    See `Client.replay` for the parameters and the result.
    """
    params = {
        "id": check.whole("id", id, check.INT8),
        "queue": check.optional_text("queue", queue),
    }
    return Command(_REPLAY, params, scalar)


def move(ids: Sequence[int], queue: str) -> Command[int]:
    """Put waiting messages and dead letters into another queue.

    See `Client.move` for the parameters and the result.
    """
    params = {
        "ids": [check.whole("ids", id, check.INT8) for id in ids],
        "queue": check.text("queue", queue),
    }
    return Command(_MOVE, params, scalar)


def set_priority(ids: Sequence[int], priority: int) -> Command[int]:
    """Change the priority of waiting messages.

    See `Client.set_priority` for the parameters and the result.
    """
    params = {
        "ids": [check.whole("ids", id, check.INT8) for id in ids],
        "priority": check.whole("priority", priority),
    }
    return Command(_SET_PRIORITY, params, scalar)
