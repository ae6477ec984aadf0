"""The pages in a browser, behind a real nginx with TLS, under a path."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.nginx import PREFIX, free_port, running_nginx
from tests.ui.conftest import LIMIT_MS, MakeSite


def test_pages_behind_a_proxy_sign_in_follow_events_and_act(
    make_site: MakeSite, chromium: Browser, tmp_path: Path
) -> None:
    port = free_port()
    with (
        make_site(public_url=f"https://127.0.0.1:{port}{PREFIX}") as site,
        running_nginx(tmp_path, port, site.url) as url,
    ):
        site.client.create_queue("followed")
        context = chromium.new_context(ignore_https_errors=True)
        context.set_default_timeout(LIMIT_MS)
        page = context.new_page()
        page.goto(f"{url}/queues?q=followed")
        page.get_by_label("API key").fill(site.keys["operator"])
        page.get_by_role("button", name="Sign in").click()
        ready = page.locator("#line-followed td[data-label='Ready']")
        expect(ready).to_have_text("0")
        site.client.enqueue("followed", 1)
        expect(ready).to_have_text("1")
        page.get_by_role("link", name="followed", exact=True).click()
        page.get_by_role("link", name="Pause", exact=True).click()
        page.locator("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_text("Paused followed")).to_be_visible()
        expect(page).to_have_url(re.compile(re.escape(f"{url}/queues/followed/?done=")))
        page.locator("form[action$='/logout'] button").click()
        expect(page).to_have_url(f"{url}/login")
        assert [each["path"] for each in context.cookies()] == []
        context.close()
