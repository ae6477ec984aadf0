"""Access to bulk acts: a key must be allowed to operate every queue of the filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from penstock.commands.command import Command
from penstock.commands.read.bulk_queries import bulk_acts
from penstock.model.bulk_act import BulkAct
from penstock.server.auth.principal import Principal
from penstock.server.http_error import HttpError

Run = Callable[[Command[Any]], Awaitable[Any]]


def may_act(principal: Principal, act: BulkAct) -> bool:
    """Whether the key may operate the queues of an act, and see it."""
    if act.queues is None:
        return principal.unlimited("operate")
    names = (*act.queues, *([act.to_queue] if act.to_queue else []))
    return all(principal.may("operate", name) for name in names)


def require_queues(principal: Principal, queues: Sequence[str] | None, to: str | None) -> None:
    """PermissionDeniedError unless the key may operate all of them. None stands for all queues."""
    if queues is None:
        principal.require_all("operate")
    for name in (*(queues or ()), *([to] if to is not None else [])):
        principal.require("operate", name)


async def operated_act(principal: Principal, run: Run, id: str) -> BulkAct:
    """The act with this id, if the key may operate its queues."""
    try:
        found: list[BulkAct] = await run(bulk_acts(str(UUID(id))))
    except ValueError:
        found = []
    if not found:
        raise HttpError(404, "BulkActNotFound", f"there is no bulk act {id[:100]!r}")
    act = found[0]
    if not may_act(principal, act):
        for name in act.queues or ():
            principal.require_of("the bulk act", "operate", name)
        principal.require_all("operate")
    return act
