"""All queues, and one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from penstock import browsing, insights
from penstock.errors import QueueNotFoundError
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.errors import kinds_of
from penstock.server.ui.lines import QueueLine, queue_lines
from penstock.server.ui.pages.overview import series
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
PAGE: Final = 200
SORTS: Final = ("name", "ready", "oldest", "leased", "scheduled", "dead", "done", "failed")


@pages("/queues")
async def queues(visit: Visit) -> View:
    snapshot = await visit.look()
    wanted = visit.asked("q")
    sort = visit.asked_one("sort", SORTS)
    only = visit.asked_one("only", ("all", "trouble", "paused", "dead"))
    lines = queue_lines(snapshot, diagnose(snapshot), visit.context.pulse)
    found = [line for line in lines if _fits(line, wanted, only)]
    found.sort(key=lambda line: _key(line, sort))
    start = visit.asked_whole("from", 0, 0, 1_000_000)
    data = {
        "at": snapshot.at,
        "queues": found[start : start + PAGE],
        "found": len(found),
        "all": len(lines),
        "from": start,
        "next": start + PAGE if start + PAGE < len(found) else None,
        "q": wanted,
        "sort": sort,
        "only": only,
    }
    return View("queues.html", "Queues", data, live=True)


def _fits(line: QueueLine, wanted: str | None, only: str) -> bool:
    if wanted is not None and wanted.lower() not in line.name:
        return False
    return {
        "all": True,
        "trouble": line.trouble in ("critical", "warning"),
        "paused": line.paused,
        "dead": line.dead > 0,
    }[only]


def _key(line: QueueLine, sort: str) -> Any:
    value = {
        "name": 0,
        "ready": line.ready,
        "oldest": line.oldest_ready_seconds or 0,
        "leased": line.leased,
        "scheduled": line.scheduled,
        "dead": line.dead,
        "done": line.done_per_minute or 0,
        "failed": line.failed_per_minute or 0,
    }[sort]
    return (-value, line.name)


@pages("/queues/{name}/")
async def queue(visit: Visit) -> View:
    name = visit.path["name"]
    visit.principal.require("read", name)
    found = await visit.run(insights.queue(name))
    snapshot = await visit.look()
    if all(stats.queue != name for stats in snapshot.stats):  # it was made a moment ago
        visit.context.board.forget()
        snapshot = await visit.look()
    findings = [finding for finding in diagnose(snapshot) if finding.queue == name]
    lines = queue_lines(snapshot, findings, visit.context.pulse)
    line = next((each for each in lines if each.name == name), None)
    if line is None:
        raise QueueNotFoundError(f"queue {name!r} was just dropped", queue=name)
    errors = [error for error in snapshot.errors if error.queue == name]
    oldest = await visit.run(browsing.browse("ready", [name], page=5))
    latest = await visit.run(browsing.browse("finished", [name], page=5, look=2000))
    data = {
        "at": snapshot.at,
        "queue": found,
        "line": line,
        "findings": findings,
        "errors": kinds_of(errors)[:5],
        "oldest": shown(visit, oldest.rows),
        "latest": shown(visit, latest.rows),
        "workers": [lease for lease in snapshot.leases if lease.queue == name],
        "handlers": [
            {"worker": beat.worker, "alive": beat.alive, "running": beat.queues[name]}
            for beat in snapshot.heartbeats
            if name in beat.queues
        ],
        "schedules": [each.name for each in snapshot.schedules if each.queue == name],
        "pulse": series(list(visit.context.pulse.beats), name),
    }
    return View("queue.html", name, data, live=True)


def shown(visit: Visit, rows: list[Any]) -> list[Any]:
    """Lines of a list, without what is not to be seen."""
    if not visit.redacts:
        return rows
    return [replace(row, preview="redacted") for row in rows]
