"""What an operator on call does, from the page that shows the trouble, in three clicks at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect
from psycopg.types.json import Jsonb
from tests.ui.conftest import Site, Visit
from tests.ui.test_actions import told


class Clicks:
    """How often a person has clicked, over any number of pages."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def at_most(page: Page, most: int) -> Iterator[None]:
    """The task takes so many clicks at most, whichever pages they lead to."""
    clicks = Clicks()

    def clicked() -> None:
        clicks.count += 1

    page.expose_function("penstockClicked", clicked)
    count = "addEventListener('click', e => e.isTrusted && penstockClicked(), true)"
    page.add_init_script(count)
    page.evaluate(count)
    yield
    assert 0 < clicks.count <= most


@pytest.fixture
def queue(sick: Site) -> str:
    name = f"q{uuid4().hex[:10]}"
    sick.client.create_queue(name, max_attempts=2)
    for n in range(10):
        sick.client.enqueue(name, {"n": n})
    return name


def report(site: Site, worker: str, queue: str, **more: Any) -> str | None:
    """A worker reports that it is slow; the command that it gets."""
    runs = [{"id": "123456", "attempt": 2, "seconds": 754}]
    work = {"running": 1, "concurrency": 4, "p50_seconds": 61, "p95_seconds": 240, "runs": runs}
    document = {"takes_commands": True, "version": "9.9", "queues": {queue: work}, **more}
    row = site.db.execute(
        "select penstock.beat_v2(%s, 'running', '2026-01-01', %s)", [worker, Jsonb(document)]
    ).fetchone()
    assert row is not None
    command: str | None = row[0]
    return command


def test_find_a_slow_worker_and_quiet_it(sick: Site, visit: Visit, queue: str) -> None:
    worker = f"slow-{uuid4().hex[:6]}:1&x=#"  # a name that needs quoting in an address
    report(sick, worker, queue)
    sick.fresh()
    page = visit(sick, "/", "operator")
    with at_most(page, 3):
        page.get_by_role("navigation").get_by_role("link", name="Workers").click()
        row = page.locator("table").nth(1).get_by_role("row", name=worker)
        expect(row).to_contain_text("4 min")  # its p95
        expect(row).to_contain_text("12 min")  # what it runs now
        page.locator("table").first.get_by_role("row", name=worker).get_by_role(
            "link", name="Quiet"
        ).click()
        page.get_by_role("dialog").get_by_role("button", name="Quiet").click()
        expect(page.get_by_role("status").first).to_contain_text(f"Quieted worker {worker}")
    assert report(sick, worker, queue, quiet=True) == "quiet"
    sick.fresh()
    page.reload()
    row = page.locator("table").first.get_by_role("row", name=worker)
    expect(row).to_contain_text("quiet")
    row.get_by_role("link", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    told(page, f"Resumed worker {worker}")
    assert report(sick, worker, queue) is None


def test_a_key_for_some_queues_commands_only_workers_of_these(
    sick: Site, visit: Visit, queue: str
) -> None:
    worker = f"mixed-{uuid4().hex[:6]}"
    both = {"emails": {"running": 0}, queue: {"running": 0}}
    report(sick, worker, queue, queues=both)
    sick.fresh()
    page = visit(sick, "/workers", "limited")
    row = page.locator("table").first.get_by_role("row", name=worker)
    expect(row).to_be_visible()
    expect(row.get_by_role("link", name="Quiet")).to_have_count(0)
    with sick.http("limited") as http:
        assert http.get("/workers/quiet", params={"worker": worker}).status_code == 403
