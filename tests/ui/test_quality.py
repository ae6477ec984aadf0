"""Every page is readable by all users, light, and loads nothing from other hosts."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page
from tests.ui.addresses import all_addresses
from tests.ui.conftest import Site, Visit
from tests.ui.test_layout import STICKING_OUT
from tests.ui.test_pages import PAGES

from penstock.server.auth import permissions

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
FORMS = [
    "/queues/create",
    "/queues/invoices/settings",
    "/queues/invoices/redrive",
    "/queues/invoices/drop",
    "/schedules/create",
    "/messages/999999999",
    "/docs",
]


def test_axe_finds_nothing_serious_and_nothing_sticks_out(sick: Site, visit: Visit) -> None:
    """One visit of each page. `make test-long` visits every address, by theme and by width."""
    page = visit(sick, color_scheme="dark", bypass_csp=True)
    (dead,) = sick.db.execute("select min(id) from penstock.dead").fetchone() or (0,)
    found: dict[str, object] = {}
    for path in [*PAGES, *FORMS, f"/messages/{dead}"]:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path)
        found[path] = serious(page)
        for width in (1024, 390):
            page.set_viewport_size({"width": width, "height": 900})
            found[f"{path} at {width}"] = page.evaluate(STICKING_OUT)
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page_or_form(
    full: Site, visit: Visit, scheme: str
) -> None:
    page = visit(full, color_scheme=scheme, bypass_csp=True)
    for path in all_addresses(full):
        page.goto(path)
        assert serious(page) == [], path


@pytest.mark.slow
def test_an_empty_system_is_accessible_and_nothing_sticks_out(empty: Site, visit: Visit) -> None:
    page = visit(empty, color_scheme="dark", bypass_csp=True)
    for path in [path for path in permissions.PAGES if "{" not in path]:
        page.set_viewport_size({"width": 390, "height": 900})
        page.goto(path)
        assert serious(page) == [], path
        assert page.evaluate(STICKING_OUT) == [], path


def serious(page: Page) -> list[str]:
    """The serious and critical violations that axe finds."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0]['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


def test_a_dialog_is_accessible_too(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues/invoices/", bypass_csp=True)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Purge", exact=True).click()
    page.get_by_role("dialog").wait_for()
    page.evaluate(AXE)
    found = page.evaluate("axe.run('#dialog')")
    assert [r["id"] for r in found["violations"] if r["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.activeElement.closest('dialog') !== null")


def test_the_overview_weighs_little_and_asks_no_other_host(sick: Site, visit: Visit) -> None:
    page = visit(sick)
    page.goto("about:blank")
    # As at a first visit: signing in has filled the cache.
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    hosts, pending = set(), set()
    sizes: list[int] = []

    def begun(request: object) -> None:
        url = urlsplit(request.url)  # type: ignore[attr-defined]
        hosts.add(url.netloc)
        if url.path != "/live":
            pending.add(request)

    def finished(request: object) -> None:
        if request in pending:
            body = request.sizes()  # type: ignore[attr-defined]
            sizes.append(body["responseBodySize"] + body["responseHeadersSize"])
            pending.discard(request)

    page.on("request", begun)
    page.on("requestfinished", finished)
    page.goto("/", wait_until="load")
    page.wait_for_timeout(500)  # what the page fetches by itself, once it is there
    while pending:
        page.wait_for_timeout(50)
    weight = sum(sizes)
    print(f"overview: {weight} bytes in {len(sizes)} answers")
    assert hosts == {urlsplit(sick.url).netloc}
    assert 20_000 < weight < 100 * 1024


def test_everything_can_be_reached_by_keyboard(sick: Site, visit: Visit) -> None:
    page = visit(sick)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    # The first finding: three keys from the bed.
    inside = "document.activeElement.closest('.finding') !== null"
    assert page.evaluate(inside)
