"""The actions of operators that the holder of a key may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.model.access import Activity
from penstock.server.auth.principal import Principal

# Actions whose target is a queue, by their names on pages and in the API, and as verbs.
_ON_QUEUES: Final = frozenset(
    {
        "create queue",
        "set queue",
        "reset queue",
        "drop queue",
        "pause",
        "resume",
        "purge",
        "undo purge",
        "undo_purge",
        "bulk act",
        "redrive",
        "requeue",
        "replay",
        "copy",
        "cancel",
        "create_queue",
        "set_queue",
        "drop_queue",
    }
)


def visible_activity(principal: Principal, found: Iterable[Activity]) -> list[Activity]:
    """A key for some queues sees the actions on these queues."""
    if principal.is_admin:
        return list(found)
    return [each for each in found if _may_see(principal, each)]


def _may_see(principal: Principal, act: Activity) -> bool:
    queue = queue_of(act)
    if queue is None:
        return principal.unlimited("operate")
    return principal.may("operate", queue)


def queue_of(act: Activity) -> str | None:
    """The queue of an action, or None if it has no single queue."""
    queue = act.details.get("queue") or (act.target if act.act in _ON_QUEUES else None)
    return queue if isinstance(queue, str) else None
