"""Who may see and do what; and that no other site can act for them."""

from __future__ import annotations

import hmac
import re
from typing import Any

import httpx
from playwright.sync_api import expect
from tests.ui import stages
from tests.ui.conftest import MakeSite, Site, Visit
from tests.ui.test_pages import PAGES

ACTS = [
    "/queues/create",
    "/queues/emails/pause",
    "/queues/emails/resume",
    "/queues/emails/purge",
    "/queues/emails/purge-dead",
    "/queues/emails/redrive",
    "/queues/emails/settings",
    "/queues/emails/drop",
    "/messages/cancel",
    "/messages/1/cancel",
    "/messages/1/requeue",
    "/messages/1/replay",
    "/schedules/create",
    "/schedules/nightly/edit",
    "/schedules/nightly/pause",
    "/schedules/nightly/resume",
    "/schedules/nightly/fire",
    "/schedules/nightly/drop",
    "/system/maintain",
    "/system/expiry-reaper",
    "/system/delete-reaper",
]


def token(http: httpx.Client, path: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', http.get(path).text)
    assert found is not None
    return found[1]


def test_a_reader_sees_no_buttons(sick: Site, visit: Visit) -> None:
    page = visit(sick, role="reader")
    for path in PAGES:
        if path in ("/activity", "/bulk-acts", "/keys"):  # these need another scope
            continue
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_attached()
        assert page.locator("main a.button, main button:not(.filters button)").count() == 0, path
    assert page.get_by_role("link", name="Activity").count() == 0


def test_a_reader_can_do_nothing_by_address_either(sick: Site) -> None:
    with sick.http("reader") as reader:
        # Every form has the token of the session: a reader finds it where it may look.
        csrf = _token_of(sick, reader.cookies["penstock_session"])
        for path in ACTS:
            assert reader.get(path).status_code == 403, path
            refused = reader.post(path, data={"csrf": csrf})
            assert (refused.status_code, "lacks the" in refused.text) == (403, True), path


def _token_of(site: Site, session: str) -> str:
    """The token that the server would give a session: so that the scope alone is in the way."""
    secret = site.running.server.context.auth._secret
    assert secret is not None
    return hmac.digest(secret, f"csrf {session}".encode(), "sha256").hex()


def test_a_post_needs_a_session_the_token_of_it_and_our_own_origin(sick: Site) -> None:
    with sick.http() as nobody, sick.http("operator") as operator, sick.http("admin") as other:
        csrf = token(operator, "/queues/create")
        for path in ACTS:
            assert nobody.post(path, data={"csrf": csrf}).status_code == 401, path
            assert operator.post(path, data={}).status_code == 403, path
            wrong = other.post(path, data={"csrf": csrf})
            assert (wrong.status_code, "belong to this session" in wrong.text) == (403, True), path
            origin = {"Origin": "https://evil.example"}
            foreign = operator.post(path, data={"csrf": csrf}, headers=origin)
            assert (foreign.status_code, "another site" in foreign.text) == (403, True), path


def test_a_key_for_some_queues_sees_those_alone(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues", role="limited")
    assert page.locator("tbody th a").all_inner_texts() == ["emails", "orders"]
    page.goto("/queues/emails/")
    expect(page.get_by_role("link", name="Pause")).to_be_visible()
    page.goto("/queues/orders/")
    assert page.get_by_role("link", name="Pause").count() == 0
    for path in ("/queues/invoices/", "/messages?queue=invoices", "/system"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_contain_text("Permission denied")
    page.goto("/messages?state=dead")
    expect(page.get_by_text("No message is dead")).to_be_visible()
    page.goto("/")
    assert "invoices" not in page.content()
    with sick.http("limited") as http:
        csrf = token(http, "/queues/emails/pause")
        refused = http.post("/queues/orders/pause", data={"csrf": csrf})
        assert refused.status_code == 403
        (other,) = sick.db.execute("select min(id) from penstock.dead").fetchone() or (0,)
        assert http.get(f"/messages/{other}").status_code == 403


def test_without_a_session_one_is_sent_to_sign_in_and_back(sick: Site, visit: Visit) -> None:
    page = visit(sick)
    page.get_by_role("button", name="admin").click()
    expect(page).to_have_url(re.compile("/login"))
    page.goto("/messages?state=dead&queue=invoices")
    page.get_by_label("API key").fill("psk_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.get_by_label("API key").fill(sick.keys["reader"])
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/messages\?state=dead&queue=invoices"))


def test_pages_forbid_what_they_do_not_need(sick: Site) -> None:
    with sick.http("reader") as http:
        headers = http.get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_payloads_are_redacted_where_the_server_says_so(make_site: MakeSite, visit: Visit) -> None:
    with make_site(redact="payloads") as made:
        stages.healthy(made.client, made.db)
        id = made.client.enqueue("emails", {"secret": "hunter2"}, headers={"h": "hunter2"})
        made.client.create_schedule("quiet", "emails", "@daily", {"p": "hunter2"})
        page = visit(made, f"/messages/{id}")
        expect(page.get_by_text("Payloads and headers are redacted")).to_be_visible()
        paths: list[Any] = [f"/messages/{id}", "/messages?queue=emails", "/queues/emails/"]
        paths += ["/schedules", "/schedules/quiet/edit", f"/messages/{id}.json", "/schedules.json"]
        for path in [*paths, "/messages.json?queue=emails", "/queues/emails.json"]:
            page.goto(path)
            assert "hunter2" not in page.content(), path
