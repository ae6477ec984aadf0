"""The actions of operators."""

from __future__ import annotations

from typing import Final

from penstock.commands import read
from penstock.server.auth.visible_activity import visible_activity
from penstock.server.ui.activity_text import describe
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()
PAGE: Final = 50


@pages("/activity")
async def activity(visit: Visit) -> View:
    before = visit.asked_whole("before", 2**62, 0, 2**62)
    found = await visit.run(
        read.activity(
            actor=visit.asked("actor"), target=visit.asked("target"), before=before, limit=PAGE
        )
    )
    seen = visible_activity(visit.principal, found)
    data = {
        "activity": [{"note": each, "sentence": describe(each)} for each in seen],
        "actor": visit.asked("actor"),
        "target": visit.asked("target"),
        "next": found[-1].id if len(found) == PAGE else None,
    }
    return View("activity.html", "Activity", data)
