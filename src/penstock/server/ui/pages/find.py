"""The box at the top: a message by its id, a queue by its name, or queues by a part of it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from penstock.server.ui.diagnosis import queue_path
from penstock.server.ui.visits import Pages, Visit

pages: Final = Pages()


@pages("/find")
async def find(visit: Visit) -> Response:
    wanted = visit.asked("q") or ""
    if wanted.isascii() and wanted.isdigit():
        return RedirectResponse(f"/messages/{wanted}", 303)
    names = [queue.name for queue in (await visit.look("queues")).queues]
    if wanted in names:
        return RedirectResponse(queue_path(wanted), 303)
    found = [name for name in names if wanted.lower() in name]
    if len(found) == 1:
        return RedirectResponse(queue_path(found[0]), 303)
    if found or not wanted:
        return RedirectResponse(f"/queues?{urlencode({'q': wanted})}", 303)
    # Not a queue: then perhaps the key of a message.
    return RedirectResponse(f"/messages?{urlencode({'key': wanted})}", 303)
