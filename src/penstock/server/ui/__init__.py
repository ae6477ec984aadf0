"""The pages for people: plain Starlette routes, mounted behind the API by `penstock.server.app`.

How a page is written is in the docstring of `penstock.server`.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from penstock.server.ui import login


def routes() -> list[BaseRoute]:
    """All pages, in the order in which they are tried."""
    return [*login.routes()]
