"""A hung database: open pages say so, and keep what they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import expect
from tests.server.stopped import Stoppable, stoppable
from tests.ui.conftest import ROLES, Site, Visit

from penstock import Client

BANNER = "The database does not answer. This page shows the last known state."
# A page that waits for the database without a limit shows nothing for longer than this.
PATIENCE_MS = 15_000


@pytest.fixture(scope="module")
def database(pg_bin: Path) -> Iterator[Stoppable]:
    with stoppable(pg_bin) as made:
        yield made


@pytest.fixture(scope="module")
def shared(database: Stoppable, serve: Callable[..., Any]) -> Iterator[Site]:
    running = serve(database.dsn, upkeep="off")
    try:
        keys = {role: running.make_key(role, *scopes) for role, scopes in ROLES.items()}
        with (
            Client(database.dsn) as client,
            psycopg.connect(database.dsn, autocommit=True) as db,
        ):
            client.create_queue("emails")
            client.enqueue("emails", {"to": "ada@example.com"})
            yield Site(running, database.dsn, keys, client, db)
    finally:
        running.stop()


@pytest.fixture
def site(shared: Site, database: Stoppable) -> Iterator[Site]:
    yield shared
    database.go_on()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param("/queues", "emails", id="a page that follows"),
        pytest.param(
            "/messages?queue=emails",
            "emails",
            id="a page that does not",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_open_page_says_so_keeps_what_it_shows_and_goes_on_afterwards(
    site: Site, database: Stoppable, visit: Visit, path: str, shown: str
) -> None:
    page = visit(site, path)
    row = page.locator("#live-part").get_by_text(shown).first
    expect(row).to_be_visible()
    with page.expect_response(lambda answer: "/live" in answer.url):
        page.reload()
    database.stop()
    banner = page.locator("#stale")
    expect(banner).to_have_text(BANNER, timeout=PATIENCE_MS)
    expect(banner).to_be_visible()
    expect(row).to_be_visible()
    live = page.get_by_role("button", name="Live", exact=True)
    expect(live).to_have_count(0)
    database.go_on()
    expect(banner).to_be_hidden()
    expect(live).to_have_count(path.count("/queues"))
    expect(row).to_be_visible()


def test_a_page_that_is_opened_meanwhile_is_an_error_page_in_time(
    site: Site, database: Stoppable, visit: Visit
) -> None:
    page = visit(site, "/queues")
    expect(page.locator("#live-part").get_by_text("emails").first).to_be_visible()
    database.stop()
    answer = page.goto("/messages?queue=emails", timeout=PATIENCE_MS)
    assert answer is not None
    assert answer.status == 503
    expect(
        page.get_by_text(re.compile("the database (does not answer|is not)")).first
    ).to_be_visible()
    database.go_on()
    expect(page.locator("#stale")).to_be_hidden()
