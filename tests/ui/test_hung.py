"""A hung or stopped database: open pages say so, and keep what they show."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import expect
from tests.server.stopped import Stoppable, stoppable
from tests.ui.conftest import ROLES, Site, Visit

from penstock import Client
from penstock.db.embedded import EmbeddedPostgres
from penstock.db.migrations import Migrator

BANNER = "The database does not answer. This page shows the last known state."
# A page that waits for the database without a limit shows nothing for longer than this.
PATIENCE_MS = 15_000


@pytest.fixture(scope="module")
def database(pg_bin: Path) -> Iterator[Stoppable]:
    with stoppable(pg_bin) as made:
        yield made


@pytest.fixture(scope="module")
def shared(database: Stoppable, serve: Callable[..., Any]) -> Iterator[Site]:
    with site_on(database.dsn, serve) as made:
        yield made


@contextmanager
def site_on(dsn: str, serve: Callable[..., Any]) -> Iterator[Site]:
    """A server on a database with the schema, with one message to show."""
    running = serve(dsn, upkeep="off")
    try:
        keys = {role: running.make_key(role, *scopes) for role, scopes in ROLES.items()}
        with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as db:
            client.create_queue("emails")
            client.enqueue("emails", {"to": "ada@example.com"})
            yield Site(running, dsn, keys, client, db)
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


# An operator must not act on old numbers for longer than this.
BAR_SECONDS = 5
ROUNDS = 4


@pytest.fixture
def home() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="penstock-stopped-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hung", "stopped"])
def test_pages_say_within_five_seconds_that_the_database_is_hung_or_stopped(
    pg_bin: Path, home: Path, serve: Callable[..., Any], visit: Visit, how: str
) -> None:
    """Of a page that follows and of one that does not: each round meets them at another moment."""
    seconds = []
    with ExitStack() as stack:
        database = EmbeddedPostgres.start(home, bin_dir=pg_bin)
        stack.callback(lambda: database.stop())
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            Migrator(connection).up()
        site = stack.enter_context(site_on(database.dsn, serve))
        pages = [visit(site, "/queues"), visit(site, "/messages?queue=emails")]
        for _ in range(ROUNDS):
            for page in pages:
                with page.expect_response(lambda answer: "/live" in answer.url):
                    page.reload()
                expect(page.locator("#live-part").get_by_text("emails").first).to_be_visible()
            started = time.monotonic()
            if how == "hung":
                Stoppable(database).stop()
            else:
                database.stop()
            for page in pages:
                page.wait_for_selector("#stale:not([hidden])")
                seconds.append(time.monotonic() - started)
            expect(pages[0].get_by_role("button", name="Not live")).to_be_visible()
            for page in pages:
                expect(page.locator("#stale")).to_have_text(BANNER)
                expect(page.get_by_role("button", name="Live", exact=True)).to_have_count(0)
                expect(page.locator("body")).to_have_class(re.compile(r"\bstale\b"))
            if how == "hung":
                Stoppable(database).go_on()
            else:
                database = EmbeddedPostgres.start(home, bin_dir=pg_bin)
            for page in pages:
                expect(page.locator("#stale")).to_be_hidden()
        for page in pages:
            page.close()
    print(f"{how}: the banner after {', '.join(f'{each:.1f}' for each in seconds)} s")
    assert max(seconds) <= BAR_SECONDS, seconds
