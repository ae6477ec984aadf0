"""Where there are more messages than a page may count or scan: what it says is still right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from playwright.sync_api import expect
from tests.ui.conftest import MakeSite, Site, Visit, twin
from tests.ui.test_actions import confirm

from penstock.commands import read
from penstock.commands.command import Command
from penstock.model.queue import QueueStats
from penstock.server.ui.pages import find


@pytest.fixture(scope="module")
def large(make_site: MakeSite) -> Iterator[Site]:
    """70 MB of ready messages: more than pages count exactly, and than a lookup may scan."""
    with make_site() as made:
        made.client.create_queue("bulk")
        made.client.create_queue("invoices", max_depth=3000)
        made.client.create_queue("untouched")
        payloads = "array_fill(to_jsonb(repeat('x', %s)), array[%s])"
        put = f"select count(*) from penstock.enqueue_many(%s, {payloads})"
        half = [("bulk", 950, 9_000)] * 2
        few = [("invoices", 100, 2800), ("untouched", 100, 777)]
        for queue, size, count in (*half, *few, *half):
            made.db.execute(put, [queue, size, count])
        assert any(each.estimated for each in made.client.run(read.all_stats()))
        made.fresh()
        yield made


def test_an_alarm_is_raised_by_exact_numbers(large: Site, visit: Visit) -> None:
    page = visit(large)
    finding = page.locator(".finding", has_text="invoices is nearly full")
    expect(finding).to_contain_text("2,800 of at most 3,000 messages")
    with large.http() as http:
        key = {"Authorization": f"Bearer {large.keys['admin']}"}
        metrics = http.get("/metrics", headers=key).text
    assert 'penstock_queue_messages{queue="invoices",state="ready"} 2800.0' in metrics
    assert 'penstock_queue_messages{queue="untouched",state="ready"} 777.0' in metrics


def test_estimates_are_marked_in_lists_and_exact_on_the_page_of_a_queue(
    large: Site, visit: Visit
) -> None:
    page = visit(large, "/queues")
    row = page.locator("#line-bulk")
    for label in ("Ready", "Leased", "Scheduled", "Dead"):
        expect(row.locator(f"td[data-label='{label}']")).to_contain_text("~")
    page.goto("/queues/bulk/")
    tile = page.locator(".tile", has_text="Ready").locator(".value")
    expect(tile.filter(has_text=re.compile(r"^36,000$"))).to_have_count(1)


def test_only_an_exact_count_decides_which_queues_have_dead_letters(large: Site) -> None:
    """A queue with one dead letter among 36,000 messages, of which the sample sees none."""
    for lease in large.client.claim("bulk", 1):
        large.client.reject(lease, "no")
    large.fresh()
    listed = twin(large, "/queues.json?only=dead")["queues"]
    assert [each["name"] for each in listed if each["name"] != "untouched"] == ["bulk"]


@pytest.mark.parametrize("act", ["pause", "resume", "purge", "purge-dead", "drop"])
def test_a_confirmation_marks_an_estimate(
    large: Site, visit: Visit, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    exact = read.stats

    def estimated(queue: str) -> Command[QueueStats]:
        command = exact(queue)
        return replace(command, decode=lambda rows: replace(command.decode(rows), estimated=True))

    page = visit(large, f"/queues/invoices/{act}", "admin")
    expect(page.locator(".counted b")).to_have_text(re.compile("^[0-9,]+$"))
    monkeypatch.setattr(read, "stats", estimated)
    page.reload()
    expect(page.locator(".counted b")).to_have_text(re.compile("^about [0-9,]+$"))


def test_dead_rows_are_marked_as_estimates(large: Site, visit: Visit) -> None:
    page = visit(large, "/system")
    cells = page.locator("td[data-label='Dead rows']")
    assert {text[0] for text in cells.all_inner_texts()} == {"~"}
    expect(page.locator(".tile", has_text="Ring, dead rows").locator("abbr")).to_have_text("~")


def test_a_message_that_is_ready_again_has_its_page(large: Site, visit: Visit) -> None:
    (lease,) = large.client.claim("bulk", 1)
    large.client.nack(lease, "not now", delay=0)
    page = visit(large, f"/messages/{lease.id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ready")
    expect(page.get_by_text("Attempt 1 failed")).to_be_visible()


def test_a_requeued_message_has_its_page_and_can_be_chosen(large: Site, visit: Visit) -> None:
    (lease,) = large.client.claim("untouched", 1)
    large.client.reject(lease, "no good")
    page = visit(large, f"/messages/{lease.id}", "operator")
    page.get_by_role("link", name="Requeue").click()
    confirm(page, "Requeue", "1")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ready")
    page.goto(f"/messages/cancel?id={lease.id}")
    expect(page.locator(".counted b")).to_have_text("1")
    assert twin(large, f"/messages/{lease.id}.json")["message"]["state"] == "ready"


@pytest.mark.slow
def test_a_search_shows_its_progress_and_is_continued_to_the_end(
    large: Site, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {large.client.enqueue("untouched", {"text": "needle"}) for _ in range(3)}
    step = partial(read.search, milliseconds=10, page=2)
    monkeypatch.setattr(find.read, "search", step)
    page = visit(large, "/find?q=needle")
    expect(page.get_by_text("Not searched yet: ")).to_be_visible()
    found: list[str] = []
    for _ in range(1000):
        found += page.locator("tbody th").all_inner_texts()
        further = page.get_by_role("link", name="Search further")
        if not further.count():
            break
        page.goto(str(further.get_attribute("href")))
    assert sorted(map(int, found)) == sorted(ids)
    expect(page.get_by_text("in 100 % of what is stored")).to_be_visible()
