"""The admin pages: plain Starlette routes, mounted after the API by `penstock.server.app`.

The docstring of `penstock.server` explains how to write a page. `visits` has pages, `actions` has
actions of operators, and `pages` the modules with both.
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
    services,
    subscriptions,
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
    subscriptions,
    services,
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
    subscriptions,
    services,
    batches,
    worker_actions,
    finding_actions,
    system_actions,
    keys,
)


def routes() -> list[BaseRoute]:
    """All routes in order of matching: actions have longer paths than pages."""
    acts = [route for module in _ACTIONS for act in module.ACTS for route in act.routes()]
    pages = [route for module in (*_PAGES, find) for route in module.pages.routes]
    return [*assets.routes(), *live.routes(), *login.routes(), *acts, *pages]
