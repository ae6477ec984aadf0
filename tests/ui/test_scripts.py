"""A script in any text of a user is shown as text, everywhere."""

from __future__ import annotations

from tests.ui.conftest import Site, Visit
from tests.ui.stages import SCRIPT

PATHS = [
    "/",
    "/queues",
    "/queues/scripts/",
    "/queues/scripts/redrive",
    "/messages?queue=scripts",
    "/messages?state=scheduled",
    "/messages?state=leased",
    "/messages?state=dead",
    "/messages?state=finished",
    "/dead-letters",
    "/dead-letters?queue=scripts",
    "/workers",
    "/schedules",
    "/schedules/scripts/edit",
    "/activity",
    "/system",
]


def test_no_page_runs_what_users_wrote(scripted: tuple[Site, list[int]], visit: Visit) -> None:
    site, ids = scripted
    page = visit(site)
    silent = []
    for path in [*PATHS, *(f"/messages/{id}" for id in ids)]:
        page.goto(path)
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("img[src=x], script:not([src])").count() == 0, path
        if "<script>window.pwned" not in page.locator("body").inner_text():
            silent.append(path)
    # Everywhere else it is there to be read, as text; in the form it is in a field.
    form = "/schedules/scripts/edit"
    assert silent == ["/queues", "/queues/scripts/redrive", form, "/system"]
    page.goto(form)
    assert SCRIPT in page.get_by_label("Payload, as JSON").input_value()


def test_no_page_runs_what_its_address_says(scripted: tuple[Site, list[int]]) -> None:
    site, _ = scripted
    with site.http("admin") as http:
        for field in ("queue", "key", "error", "worker", "place", "older"):
            answer = http.get("/messages", params={field: SCRIPT})
            assert "<script>window" not in answer.text, field
            twin = http.get("/messages.json", params={field: SCRIPT})
            assert twin.headers["content-type"].startswith("application/")
            assert twin.headers["x-content-type-options"] == "nosniff"
        found = http.get("/find", params={"q": SCRIPT})
        assert found.status_code == 200
        assert "<script>window" not in found.text
        assert "<script>window" not in http.get("/login", params={"next": SCRIPT}).text
