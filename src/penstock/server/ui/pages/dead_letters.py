"""Dead letters, grouped by error."""

from __future__ import annotations

from typing import Final

from penstock.commands import read
from penstock.server.ui.errors import kinds_of
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
SHOWN: Final = 100


@pages("/dead-letters")
async def dead_letters(visit: Visit) -> View:
    queue = visit.asked("queue")
    snapshot = await visit.look("stats", "exact", "errors")
    errors = snapshot.errors
    if queue is not None:
        queue = queue.removesuffix(".dlq")
        visit.principal.require("read", queue)
        await visit.run(read.queue(queue))
        errors = await visit.run(read.dead_errors(queue))
    kinds = kinds_of(errors)
    counts = {stats.queue: stats.dead for stats in snapshot.exact if stats.dead}
    data = {
        "at": snapshot.at,
        "queue": queue,
        "kinds": kinds[:SHOWN],
        "more_kinds": max(0, len(kinds) - SHOWN),
        "looked": sum(error.count for error in errors),
        "dead": counts.get(queue, 0) if queue else sum(counts.values()),
        "queues": sorted(counts.items(), key=lambda item: (-item[1], item[0])),
    }
    return View("dead_letters.html", "Dead letters", data, live=queue is None)
