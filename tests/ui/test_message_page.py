"""The page of one message: its neighbours, copies, trace, and what operators did to it."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from playwright.sync_api import Page, expect
from tests.ui.conftest import MakeSite, Site, Visit

from penstock.server.ui.json_tree import MOST_NODES, json_tree

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_next_and_previous_follow_the_list_that_led_here(sick: Site, visit: Visit) -> None:
    sick.client.create_queue("neighbours")
    ids = [sick.client.enqueue("neighbours", n, key=f"n-{n % 2}-{n}") for n in range(60)]
    page = visit(sick, "/messages?queue=neighbours")
    page.get_by_role("link", name=str(ids[0]), exact=True).click()
    expect(page.get_by_role("link", name="Previous")).to_have_count(0)
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {ids[1]}")
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {ids[0]}")
    # The last of a page leads to the first of the next.
    page.goto(f"/messages/{ids[49]}?list=queue%3Dneighbours")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {ids[50]}")
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator("tbody tr")).to_have_count(50)


def test_a_list_that_is_nonsense_or_not_the_visitors_shows_no_neighbours(sick: Site) -> None:
    id = sick.client.enqueue("emails", 1)
    with sick.http("limited") as http:
        for listed in ("state=none", "queue=invoices", "queue=%00", "place=x"):
            answer = http.get(f"/messages/{id}", params={"list": listed})
            assert answer.status_code == 200, listed
            assert "Next</a>" not in answer.text
    assert sick.client.cancel(id)  # other tests count the messages of this queue


def test_a_search_from_a_wrong_place_names_the_parameter(sick: Site) -> None:
    with sick.http("reader") as http:
        for place in ("x", "scheduled/zz"):
            answer = http.get("/find", params={"q": "a", "place": place})
            assert answer.status_code == 422, place
            assert "the place of a row of the previous page" in answer.text


def csrf(http: httpx.Client, path: str) -> str:
    return str(re.findall(r'name="csrf" value="(\w+)"', http.get(path).text)[0])


def test_an_edited_copy_is_enqueued_and_both_stories_tell_of_it(sick: Site, visit: Visit) -> None:
    client = sick.client
    client.create_queue("edited", keep_history=1)
    id = client.enqueue("edited", {"amount": 10, "to": ["a"]}, headers={"h": 1}, key="k-1")
    [lease] = client.claim("edited")
    client.ack(lease)
    page = visit(sick, f"/messages/{id}")
    page.get_by_role("link", name="Edit a copy").click()
    form = page.locator("dialog")
    form.get_by_label("Payload").fill('{"amount": 11')
    form.get_by_role("button", name="Enqueue").click()
    expect(page.get_by_role("alert")).to_contain_text("JSON")
    expect(page.get_by_label("Key")).to_have_value("k-1")
    page.get_by_label("Payload").fill('{"amount": 11}')
    page.get_by_label("Priority").fill("3")
    page.get_by_role("button", name="Enqueue").click()
    expect(page.get_by_text("Enqueued an edited copy of message").first).to_be_visible()
    [copy] = client.claim("edited")
    assert (copy.payload, copy.key, copy.priority) == ({"amount": 11}, "k-1", 3)
    assert copy.headers["h"] == 1
    for each in (id, copy.id):
        page.goto(f"/messages/{each}")
        told = page.locator(".story li.user")
        expect(told).to_contain_text(f"copy of message {id} into edited, as message {copy.id}")
        expect(told).to_contain_text("by admin")


def test_a_copy_replaces_no_waiting_message_and_needs_the_right_to_enqueue(sick: Site) -> None:
    sick.client.create_queue("guarded")
    id = sick.client.enqueue("guarded", 1, key="taken")
    path = f"/messages/{id}/copy"
    with sick.http("admin") as http:
        fields = {"queue": "guarded", "payload": "2", "headers": "{}", "key": "taken"}
        answer = http.post(path, data={**fields, "csrf": csrf(http, path)})
        assert answer.status_code == 409
        for bad in ({"headers": "[]"}, {"priority": "x"}, {"queue": "nowhere"}, {"queue": ""}):
            sent = http.post(path, data={**fields, "key": "", **bad, "csrf": csrf(http, path)})
            assert 400 <= sent.status_code < 500, bad
    assert sick.client.message(id).payload == 1
    with sick.http("operator") as http:
        assert http.get(path).status_code == 403
        assert "Edit a copy" not in http.get(f"/messages/{id}").text


def test_operators_acts_stand_in_the_story_for_operators_only(sick: Site) -> None:
    sick.client.create_queue("told")
    id = sick.client.enqueue("told", 1)
    with sick.http("operator") as http:
        path = f"/messages/{id}/cancel"
        assert http.post(path, data={"csrf": csrf(http, path)}).status_code == 303
        assert "by operator" in http.get(f"/messages/{id}").text
    with sick.http("reader") as http:
        assert "by operator" not in http.get(f"/messages/{id}").text


def test_the_story_shows_an_error_once(sick: Site) -> None:
    sick.client.create_queue("once", max_attempts=1)
    id = sick.client.enqueue("once", 1)
    (lease,) = sick.client.claim("once", 1)
    sick.client.nack(lease, "no such address")
    with sick.http("reader") as http:
        page = http.get(f"/messages/{id}").text
    assert "after 1 attempt; it stays" in page
    assert page.count("no such address") == 1


def copied(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_payloads_fold_and_are_copied_as_they_are(sick: Site, visit: Visit) -> None:
    payload = {"order": {"lines": [{"sku": "a<b>"}, {"sku": "c"}]}, "paid": True}
    sick.client.create_queue("folded")
    id = sick.client.enqueue("folded", payload)
    page = visit(sick, f"/messages/{id}", permissions=["clipboard-read", "clipboard-write"])
    expect(page.get_by_text("a<b>").first).to_be_hidden()
    page.locator("summary", has_text="lines:").click()
    page.locator("summary", has_text="0:").click()
    expect(page.get_by_text('"a<b>"').first).to_be_visible()
    page.get_by_role("button", name="Copy the payload").click()
    expect(page.get_by_role("button", name="Copy the payload")).to_have_text("Copied")
    assert json.loads(copied(page)) == payload
    page.get_by_role("button", name="Copy the id").click()
    expect(page.get_by_role("button", name="Copy the id")).to_have_text("Copied")
    assert copied(page) == str(id)


def test_a_large_or_deep_value_is_shown_as_text() -> None:
    assert json_tree([1] * MOST_NODES) is None
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert json_tree(deep) is None
    assert json_tree({}) is None
    assert json_tree("text") is None
    found = json_tree({"a": [1, {}]})
    assert found is not None
    assert [(each.name, each.count) for each in found.children] == [("a", 2)]


def test_times_are_in_utc_or_in_the_own_time_zone(sick: Site, visit: Visit) -> None:
    sick.client.create_queue("zoned")
    id = sick.client.enqueue("zoned", 1)
    page = visit(sick, f"/messages/{id}", timezone_id="Asia/Kolkata")
    enqueued = page.locator("dt:text-is('Enqueued') + dd")
    expect(enqueued).to_contain_text("UTC")
    page.get_by_role("button", name="own time zone").click()
    expect(enqueued).to_contain_text("IST")
    page.get_by_role("button", name="UTC").click()
    expect(enqueued).to_contain_text("UTC")
    with sick.http("reader") as http:
        http.post("/time-zone", data={"zone": "../../etc/passwd"})
        assert "penstock_zone" not in http.cookies


def test_a_message_links_to_its_trace(make_site: MakeSite) -> None:
    with make_site(trace_url="https://traces.example.com/t/{trace_id}?tab=1") as site:
        site.client.create_queue("traced")
        traced = site.client.enqueue(
            "traced", 1, headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        )
        other = site.client.enqueue("traced", 1, headers={"traceparent": 'x" onclick="y'})
        with site.http("reader") as http:
            address = f'href="https://traces.example.com/t/{TRACE}?tab=1"'
            assert address in http.get(f"/messages/{traced}").text
            assert "traces.example.com" not in http.get(f"/messages/{other}").text
