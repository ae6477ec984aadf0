"""The pages for people: plain Starlette routes, mounted behind the API by `penstock.server.app`.

How a page is written is in the docstring of `penstock.server`; `visits` has pages, `actions` what
operators do, `pages` the modules with both.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from penstock.server.ui import assets, live, login
from penstock.server.ui.pages import (
    activity,
    analytics,
    batches,
    dead_letters,
    find,
    message_actions,
    messages,
    overview,
    queue_actions,
    queue_settings,
    queues,
    runbooks,
    schedule_actions,
    schedules,
    system,
    system_actions,
    workers,
)

_PAGES = (
    overview,
    queues,
    messages,
    dead_letters,
    workers,
    schedules,
    batches,
    analytics,
    system,
    activity,
    runbooks,
)
_ACTIONS = (
    queue_settings,
    queue_actions,
    message_actions,
    schedule_actions,
    batches,
    system_actions,
)


def routes() -> list[BaseRoute]:
    """All of them, in the order in which they are tried: acts have longer paths than pages."""
    acts = [route for module in _ACTIONS for act in module.ACTS for route in act.routes()]
    pages = [route for module in (*_PAGES, find) for route in module.pages.routes]
    return [*assets.routes(), *live.routes(), *login.routes(), *acts, *pages]
