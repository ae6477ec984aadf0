"""A real browser on a real server: Debian's Chromium, driven by Playwright.

Sites are shared by the tests of a process: each has a database, a server, and keys for every role.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.server.conftest import Running
from tests.ui import stages

from penstock import Client
from penstock.db.embedded import EmbeddedPostgres

# How long anything is waited for: a test that gets there has failed.
LIMIT_MS = 60_000
expect.set_options(timeout=LIMIT_MS)
ROLES = {
    "admin": ["admin"],
    "operator": ["operate"],
    "reader": ["read"],
    "limited": ["operate:emails", "read:orders"],
}
# Chromium's own calls home fail here, many at a time, and would only stand in the log.
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]


@dataclass
class Site:
    """A server with something to show."""

    running: Running
    dsn: str
    keys: dict[str, str]
    client: Client
    db: psycopg.Connection[Any]

    @property
    def url(self) -> str:
        return self.running.url

    def fresh(self) -> None:
        """What the server read at its start, of an empty database, would do for ten seconds."""
        self.running.server.context.snapshots.forget()

    @contextmanager
    def http(self, role: str | None = None) -> Iterator[httpx.Client]:
        """A client without a browser; with a session, if a role is given."""
        with httpx.Client(base_url=self.url, timeout=60) as made:
            if role is not None:
                assert made.post("/login", data={"key": self.keys[role]}).status_code == 303
            yield made


MakeSite = Callable[..., AbstractContextManager[Site]]


@pytest.fixture(scope="session")
def make_site(server: EmbeddedPostgres, template: str, serve: Callable[..., Running]) -> MakeSite:
    """Makes sites, for as long as a `with` lasts."""

    @contextmanager
    def make(**settings: Any) -> Iterator[Site]:
        name = f"site_{uuid4().hex[:12]}"
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute(f"create database {name} template {template}")
            dsn = server.dsn_of(name)
            # Nothing expires or fires but what a test lets.
            running = serve(dsn, **{"upkeep": "off", **settings})
            keys = {role: running.make_key(role, *scopes) for role, scopes in ROLES.items()}
            try:
                with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as db:
                    yield Site(running, dsn, keys, client, db)
            finally:
                running.stop()
            admin.execute(f"drop database {name} with (force)")

    return make


@pytest.fixture(scope="session")
def empty(make_site: MakeSite) -> Iterator[Site]:
    """Nothing has happened yet."""
    with make_site() as made:
        yield made


@pytest.fixture(scope="session")
def sick(make_site: MakeSite) -> Iterator[Site]:
    """Something of everything. To look at: a test changes its own queues only."""
    with make_site() as made:
        stages.sick(made.client, made.db)
        stages.gold(made.db)
        stages.charts(made.db)
        made.fresh()
        yield made


@pytest.fixture(scope="session")
def full(make_site: MakeSite) -> Iterator[Site]:
    """For tests that visit every address: they add queues of which other tests know nothing."""
    with make_site() as made:
        stages.sick(made.client, made.db)
        stages.gold(made.db)
        stages.charts(made.db)
        made.fresh()
        yield made


@pytest.fixture(scope="session")
def scripted(make_site: MakeSite) -> Iterator[tuple[Site, list[int]]]:
    """Scripts wherever a user can put text."""
    with make_site() as made:
        ids = stages.scripted(made.client, made.db)
        made.fresh()
        yield made, ids


# No longer than a module: until it is stopped, Playwright's event loop counts as running in this
# thread, and an asynchronous test that came later in the same process could not start its own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed. As root: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=2 * LIMIT_MS)
        yield browser
        browser.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Together: each process that runs one of them starts a browser and builds the sites.
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Signs in at a site, and opens a page of it. A script error fails the test."""
    opened: list[BrowserContext] = []
    errors: list[str] = []

    def open_(site: Site, path: str = "/", role: str = "admin", **options: Any) -> Page:
        stages.beat_again(site.db)
        context = chromium.new_context(base_url=site.url, **options)
        context.set_default_timeout(LIMIT_MS)
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: _note(errors, message))
        context.request.post("/login", form={"key": site.keys[role]})
        page.goto(path)
        return page

    yield open_
    for context in opened:
        context.close()
    assert errors == []


def _note(errors: list[str], message: Any) -> None:
    # Requests that a test refuses or cuts off on purpose are not errors of the page.
    expected = (
        "the server responded with a status of 4",
        "the server responded with a status of 503",
        "net::ERR_INTERNET_DISCONNECTED",
        "htmx:",
    )
    if message.type == "error" and not any(words in message.text for words in expected):
        errors.append(message.text)


def twin(site: Site, path: str, role: str = "admin") -> Any:
    """The JSON twin of a page."""
    with site.http() as http:
        answer = http.get(path, headers={"Authorization": f"Bearer {site.keys[role]}"})
        assert answer.status_code == 200, answer.text
        return json.loads(answer.content)
