"""Access to worker commands: a key must be allowed to operate every queue of the worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.commands import read
from penstock.commands.command import Command
from penstock.errors import WorkerNotFoundError
from penstock.model.monitoring import Heartbeat
from penstock.server.auth.principal import Principal

Run = Callable[[Command[Any]], Awaitable[Any]]


async def operated_worker(principal: Principal, run: Run, name: str) -> Heartbeat:
    """The worker of this name.

    Raises:
        PermissionDeniedError: The key may not operate all of its queues.
        WorkerNotFoundError: No such worker was seen within a day.
    """
    beats: list[Heartbeat] = await run(read.heartbeats())
    found = next((beat for beat in beats if beat.worker == name), None)
    if found is None or not found.queues:
        # A key for some queues does not learn which names exist.
        principal.require_all("operate")
    if found is None:
        raise WorkerNotFoundError(
            f"worker {name[:200]!r} does not exist",
            hint="The Workers page and `penstock workers` list those that were seen within a day.",
            worker=name[:200],
        )
    for queue in found.queues:
        principal.require_of("the worker", "operate", queue)
    return found


def only_queue(worker: Heartbeat) -> str | None:
    """The queue of a worker that serves one, for the activity: its operators may see the act."""
    return next(iter(worker.queues)) if len(worker.queues) == 1 else None
