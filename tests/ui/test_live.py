"""Pages that follow what happens, and what that costs."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from tests.ui import stages
from tests.ui.conftest import MakeSite, Site, Visit

WATCHED_SECONDS = 12


def test_a_page_follows_what_happens_until_it_is_held(sick: Site, visit: Visit) -> None:
    sick.client.create_queue("followed")
    page = visit(sick, "/queues?q=followed")
    ready = page.locator("#line-followed td[data-label='Ready']")
    expect(ready).to_have_text("0")
    ids = [sick.client.enqueue("followed", n) for n in range(7)]
    assert len(ids) == 7
    expect(ready).to_have_text("7")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Held")).to_be_visible()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    sick.client.enqueue("followed", 8)
    # Another page that follows has shown it meanwhile.
    other = visit(sick, "/queues?q=followed").locator("#line-followed td[data-label='Ready']")
    expect(other).to_have_text("8")
    sick.client.enqueue("followed", 9)
    expect(other).to_have_text("9")
    assert requests == []
    expect(ready).to_have_text("7")
    page.get_by_role("button", name="Held").click()
    expect(ready).to_have_text("9")


def test_what_is_focused_or_being_typed_stays(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues")
    page.locator("#line-emails th a").focus()
    with page.expect_response(re.compile(r"/queues$")):
        pass
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement.textContent") == "emails"
    page.get_by_label("Name", exact=True).fill("half a na")
    with page.expect_response(re.compile(r"/queues$")):
        pass
    page.wait_for_timeout(200)
    expect(page.get_by_label("Name", exact=True)).to_have_value("half a na")


def test_a_page_says_when_the_server_has_gone(make_site: MakeSite, visit: Visit) -> None:
    with make_site() as made:
        page = visit(made)
        expect(page.get_by_text("All is well.")).to_be_visible()
        page.context.set_offline(True)
        expect(page.get_by_role("status").filter(has_text="does not answer")).to_be_visible()
        page.context.set_offline(False)
        page.close()


def test_a_server_that_stops_ends_its_streams(make_site: MakeSite) -> None:
    with make_site(drain_seconds=20) as made:
        got: list[str] = []

        def listen() -> None:
            with made.http("reader") as http, http.stream("GET", "/live") as stream:
                for line in stream.iter_lines():
                    got.append(line)

        thread = threading.Thread(target=listen)
        thread.start()
        deadline = time.monotonic() + 60
        while "event: tick" not in got:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        made.running.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_fifty_dashboards_share_their_queries(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fifty browsers do: each listens, and fetches its page again at every tick."""
    with make_site(max_connections=500) as made:
        stages.sick(made.client, made.db)
        asked: list[float] = []
        database = made.running.server.context.database
        run = database.run

        async def counted(*arguments: Any) -> Any:
            asked.append(time.monotonic())
            return await run(*arguments)

        monkeypatch.setattr(database, "run", counted)
        cookie = {"penstock_session": _session(made)}
        # In a separate thread: the browser's driver has a loop in this one.
        with ThreadPoolExecutor(1) as pool:
            begun = time.monotonic()
            fetched = pool.submit(_watched, made.url, cookie, 50, 100).result()
            seconds = time.monotonic() - begun
        print(f"{fetched} pages, {len(asked)} queries in {seconds:.0f} s")
        assert fetched >= 100
        # Alone, each page takes several queries.
        assert len(asked) < fetched


def _session(made: Site) -> str:
    with made.http("reader") as http:
        return http.cookies["penstock_session"]


def _watched(url: str, cookies: dict[str, str], people: int, pages: int) -> int:
    return asyncio.run(_watch(url, cookies, people, pages))


async def _watch(url: str, cookies: dict[str, str], people: int, pages: int) -> int:
    """For a while, and on until they have fetched so many pages: a busy machine takes longer.

    Everyone then leaves at the next line. A request that is cancelled could leave its socket open,
    and the warning about it would fail a later test.
    """
    limits = httpx.Limits(max_connections=300, max_keepalive_connections=300)
    fetched = 0
    is_over = False

    async def person(http: httpx.AsyncClient) -> None:
        nonlocal fetched
        async with http.stream("GET", "/live") as stream:
            async for line in stream.aiter_lines():
                if is_over:
                    return
                if line == "event: tick":
                    answer = await http.get("/", headers={"HX-Request": "true"})
                    assert answer.status_code == 200
                    fetched += 1

    async with (
        httpx.AsyncClient(base_url=url, cookies=cookies, timeout=60, limits=limits) as http,
        asyncio.TaskGroup() as everyone,
    ):
        tasks = [everyone.create_task(person(http)) for _ in range(people)]
        await asyncio.sleep(WATCHED_SECONDS)
        while fetched < pages and not any(task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        is_over = True
    return fetched
