"""The search box: a message by its id, a queue by its name, and any text by a search."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from penstock.commands import read
from penstock.errors import MessageNotFoundError
from penstock.model.message_page import MessageFilter, MessageRow, SearchPart
from penstock.server.ui.pages.messages import queue_names
from penstock.server.ui.pages.queues import shown
from penstock.server.ui.paths import queue_path
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
QUEUES: Final = 20
KEYED: Final = 20


@pages("/find")
async def find(visit: Visit) -> View | Response:
    wanted, place = visit.asked("q") or "", visit.asked("place")
    if not wanted:
        return RedirectResponse("/queues", 303)
    snapshot = await visit.look("heartbeats")
    names = await queue_names(visit)
    if place is None and visit.asked("as") != "text":
        if await _is_message(visit, wanted):
            return RedirectResponse(f"/messages/{wanted}?found=id", 303)
        if wanted in names:
            return RedirectResponse(queue_path(wanted) + "?found=name", 303)
    queues = None if visit.principal.is_admin else names
    found = await visit.run(read.search(wanted, queues, payloads=not visit.redacts, place=place))
    data: dict[str, Any] = {
        "q": wanted,
        "place": place,
        "queues": [name for name in names if wanted.lower() in name][:QUEUES],
        "workers": [
            beat.worker for beat in snapshot.heartbeats if wanted.lower() in beat.worker.lower()
        ][:QUEUES],
        "with_key": [] if place else shown(visit, await _with_key(visit, wanted, queues)),
        "messages": shown(visit, found.rows),
        "next": found.next,
        "progress": progress(await visit.run(read.search_parts()), found.next),
        "redacted": visit.redacts,
    }
    return View("find.html", f"Search for {wanted}", data)


async def _is_message(visit: Visit, wanted: str) -> bool:
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 18):
        return False
    try:
        await visit.run(read.message(int(wanted)))
    except MessageNotFoundError:
        return False
    return True


async def _with_key(visit: Visit, key: str, queues: list[str] | None) -> list[MessageRow]:
    """Waiting messages with exactly this key, found by an index."""
    rows: list[MessageRow] = []
    for state in ("ready", "scheduled"):
        command = read.browse(state, queues, MessageFilter(key=key), page=KEYED)
        rows += (await visit.run(command)).rows
    return rows


def progress(parts: list[SearchPart], place: str | None) -> dict[str, Any]:
    """The progress of a search: the percentage, and the states that are searched or left."""
    total = sum(part.blocks for part in parts)
    states = list(dict.fromkeys(part.state for part in parts))
    if place is None:
        return {"percent": 100, "searched": states, "searching": None, "left": []}
    name, _, tid = place.partition("/")
    at = next((n for n, part in enumerate(parts) if part.part == name), 0)
    block = int(tid.strip("()").partition(",")[0] or 0)
    done = sum(part.blocks for part in parts[:at]) + block
    now = states.index(parts[at].state)
    return {
        "percent": min(99, 100 * done // max(1, total)),
        "searched": states[:now],
        "searching": states[now],
        "left": states[now + 1 :],
    }
