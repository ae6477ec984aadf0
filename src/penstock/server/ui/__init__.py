"""The pages for people: plain Starlette routes, mounted behind the API by `penstock.server.app`.

How a page is written is in the docstring of `penstock.server`; `visits` has pages, `acts` what
operators do, `pages` the modules with both.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from penstock.server.ui import assets, live, login
from penstock.server.ui.pages import (
    activity,
    analytics,
    dead_letters,
    find,
    message_acts,
    messages,
    overview,
    queue_acts,
    queue_settings,
    queues,
    schedule_acts,
    schedules,
    system,
    system_acts,
    workers,
)

_PAGES = (overview, queues, messages, dead_letters, workers, schedules, analytics, system, activity)
_ACTS = (queue_settings, queue_acts, message_acts, schedule_acts, system_acts)


def routes() -> list[BaseRoute]:
    """All of them, in the order in which they are tried: acts have longer paths than pages."""
    acts = [route for module in _ACTS for act in module.ACTS for route in act.routes()]
    pages = [route for module in (*_PAGES, find) for route in module.pages.routes]
    return [*assets.routes(), *live.routes(), *login.routes(), *acts, *pages]
