"""All queues, and one of them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.commands import read
from penstock.commands.read.bulk_queries import last_purge
from penstock.errors import QueueNotFoundError
from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.errors import kinds_of
from penstock.server.ui.findings import QUEUE_KINDS, Finding
from penstock.server.ui.paths import queue_path
from penstock.server.ui.queue_charts import read_charts
from penstock.server.ui.queue_rows import QueueRow, queue_rows
from penstock.server.ui.visits import Pages, View, Visit, refused

pages: Final = Pages()
PAGE: Final = 200
_NEVER: Final = -100_000_000_000
# Two snapshots of the same start time differ by less than this.
_SAME_SECONDS: Final = 60
Place = tuple[float, str]
# With the kinds of findings that have no page for themselves.
ONLY: Final = (
    "all",
    "trouble",
    "paused",
    "dead",
    *sorted(QUEUE_KINDS - {"paused", "dead-letters"}),
)
SORTS: Final = ("name", "ready", "oldest", "leased", "scheduled", "dead", "done", "failed")


@pages("/queues")
async def queues(visit: Visit) -> View:
    snapshot = await visit.look()
    wanted = visit.asked("q")
    sort = visit.asked_one("sort", SORTS)
    only = visit.asked_one("only", ONLY)
    findings = diagnose(snapshot)
    lines = queue_rows(snapshot, findings)
    chosen = _chosen(only, snapshot, lines, findings)
    found = [line for line in lines if line.name in chosen and (wanted or "").lower() in line.name]
    places = {line.name: _place(line, sort, snapshot.at) for line in found}
    found.sort(key=lambda line: places[line.name])
    after = _asked_place(visit, places, sort)
    rest = [line for line in found if after is None or places[line.name] > after]
    page = rest[:PAGE]
    data = {
        "at": snapshot.at,
        "queues": page,
        "found": len(found),
        "all": len(lines),
        "after": visit.asked("after"),
        "next": _text(places[page[-1].name]) if len(rest) > PAGE else None,
        "q": wanted,
        "sort": sort,
        "only": only,
        "filters": ONLY,
    }
    return View("queues.html", "Queues", data, live=True)


def _chosen(
    only: str, snapshot: Snapshot, lines: list[QueueRow], findings: list[Finding]
) -> Set[str]:
    """The names of the queues that a filter lists. An estimate does not decide it."""
    if only in ("all", "trouble", "paused"):
        return {
            line.name
            for line in lines
            if only == "all"
            or (line.trouble in ("critical", "warning") if only == "trouble" else line.paused)
        }
    if only == "dead":
        return {stats.queue for stats in snapshot.exact if stats.dead}
    return {finding.subject for finding in findings if finding.kind == only}


def _place(line: QueueRow, sort: str, at: datetime) -> Place:
    """The sort key of a queue: the largest number first, then the name.

    A page begins after a key, not at an offset. So a queue whose key has not changed is neither
    skipped nor shown twice.
    """
    waiting = line.oldest_ready_seconds
    value = {
        "name": 0,
        "ready": line.ready,
        # The start time, which unlike the duration does not change.
        "oldest": _NEVER if waiting is None else round(waiting - at.timestamp(), 3),
        "leased": line.leased,
        "scheduled": line.scheduled,
        "dead": line.dead,
        "done": line.done_per_minute or 0,
        "failed": line.failed_per_minute or 0,
    }[sort]
    return (-value, line.name)


def _text(place: Place) -> str:
    return f"{-place[0]}:{place[1]}"


def _asked_place(visit: Visit, places: Mapping[str, Place], sort: str) -> Place | None:
    text = visit.asked("after")
    if text is None:
        return None
    value, _, name = text.partition(":")
    try:
        asked = (-float(value), name)
    except ValueError:
        raise refused("after", text, "the value of `next`, such as 12:emails") from None
    # A start time is the time of the snapshot less a wait that was read before it. On a slow server
    # two snapshots differ by seconds, but the queues keep their order.
    same = _SAME_SECONDS if sort == "oldest" else 1
    now = places.get(name)
    return now if now is not None and abs(now[0] - asked[0]) < same else asked


async def _with_slash(request: Request) -> Response:
    """Adds the slash at the end of the address of a queue."""
    request.scope["exchange"].route = "/queues/{name}"
    return RedirectResponse(queue_path(request.path_params["name"]), 308)


@pages("/queues/{name}/")
async def queue(visit: Visit) -> View:
    name = visit.path["name"]
    found = await visit.run(read.queue(name))
    snapshot = await visit.look()
    if all(stats.queue != name for stats in snapshot.stats):  # it was created just now
        visit.context.snapshots.forget()
        snapshot = await visit.look()
    findings = [finding for finding in diagnose(snapshot) if finding.queue == name]
    snapshot = replace(snapshot, stats=[await visit.run(read.stats(name))])  # exact
    lines = queue_rows(snapshot, findings)
    line = next((each for each in lines if each.name == name), None)
    if line is None:
        raise QueueNotFoundError(f"queue {name!r} was just dropped", queue=name)
    errors = [error for error in snapshot.errors if error.queue == name]
    oldest = await visit.run(read.browse("ready", [name], page=5))
    latest = await visit.run(read.browse("finished", [name], page=5, look=2000))
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
        "purges": [
            each
            for each in (
                await visit.run(last_purge(name)),
                await visit.run(last_purge(f"{name}.dlq")),
            )
            if each is not None
        ],
        "schedules": [each.name for each in snapshot.schedules if each.queue == name],
        "charts": await read_charts(visit, name, asdict(line)),
    }
    return View("queue.html", name, data, live=True)


pages.routes.append(Route("/queues/{name}", _with_slash, methods=["GET"]))


def shown(visit: Visit, rows: list[Any]) -> list[Any]:
    """The rows of a list, without hidden fields."""
    if not visit.redacts:
        return rows
    return [replace(row, preview="redacted") for row in rows]
