"""Schedules, with their next and their last run."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.model.schedule import Schedule
from penstock.server.ui.formats import shallow
from penstock.server.ui.visits import Pages, View, Visit

pages: Final = Pages()


@pages("/schedules")
async def schedules(visit: Visit) -> View:
    snapshot = await visit.look("schedules")
    data = {
        "at": snapshot.at,
        "schedules": [_shown(each, visit.redacts) for each in snapshot.schedules],
        "redacted": visit.redacts,
    }
    return View("schedules.html", "Schedules", data, live=True)


def _shown(schedule: Schedule, redacts: bool) -> Schedule:
    if redacts:
        return replace(schedule, payload=None, headers={})
    headers = {name: shallow(value) for name, value in schedule.headers.items()}
    return replace(schedule, payload=shallow(schedule.payload), headers=headers)
