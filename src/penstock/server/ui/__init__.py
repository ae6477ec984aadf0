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
    bulk_acts,
    dead_letters,
    find,
    finding_actions,
    keys,
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
    worker_actions,
    workers,
)

_PAGES = (
    overview,
    queues,
    messages,
    dead_letters,
    bulk_acts,
    workers,
    schedules,
    batches,
    analytics,
    system,
    activity,
    keys,
    runbooks,
)
_ACTIONS = (
    queue_settings,
    queue_actions,
    bulk_acts,
    message_actions,
    schedule_actions,
    batches,
    worker_actions,
    finding_actions,
    system_actions,
    keys,
)


def routes() -> list[BaseRoute]:
    """All of them, in the order in which they are tried: acts have longer paths than pages."""
    acts = [route for module in _ACTIONS for act in module.ACTS for route in act.routes()]
    pages = [route for module in (*_PAGES, find) for route in module.pages.routes]
    return [*assets.routes(), *live.routes(), *login.routes(), *acts, *pages]
