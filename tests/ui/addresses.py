"""The addresses of every page and every form of the UI, each with something to show."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import uuid4

from tests.server.scenes import Scene, example_of
from tests.ui.conftest import Site

from penstock.server.auth.permissions import ACTS, PAGES

STATES = ("ready", "scheduled", "leased", "dead", "finished", "expired")


def all_addresses(site: Site) -> list[str]:
    """All pages and forms that are declared, so a new one is never left out."""
    scene = Scene(site.db, f"every-{uuid4().hex[:8]}").everything()
    values = {"name": "invoices", "service": "local", "id": scene.dead}
    pages = [
        path.format(**{**values, "id": scene.batch} if path.startswith("/batches") else values)
        for path in PAGES
    ]
    forms = []
    for path in ACTS:
        example = example_of(f"GET {path}", scene)
        query = f"?{urlencode(example.query)}" if example.query else ""
        forms.append(example.path + query)
    states = [f"/messages?state={state}" for state in STATES]
    stories = [f"/messages/{id}" for id in (scene.ready, scene.lease[0], scene.done)]
    others = [
        "/find?q=invoice",
        "/queues/reports/",
        "/services/local?status=failed",
        "/queues/none/",
    ]
    return [*pages, *forms, *states, *stories, *others, "/docs", "/login"]
