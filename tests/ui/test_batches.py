"""Batches and the progress of tasks, on their pages."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.ui.conftest import MakeSite, Visit, twin

from penstock.commands.write.progress import Report, report_progress
from penstock.server.ui.pages import batches as pages


def test_a_batch_and_the_progress_of_its_members_are_shown(
    make_site: MakeSite, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PIECE", 1)  # the request leaves the other member to the server
    with make_site(upkeep="on") as site:
        site.client.create_queue("emails")
        site.db.execute("select penstock.create_batch('import')")
        add = "select penstock.add_to_batch(1, 'emails', array['1'::jsonb, '2'])"
        id = site.db.execute(add).fetchall()[0][0]
        line = "<script>window.pwned = 1</script>"
        site.client.run(report_progress([Report(id, 1, 0.4, "page 40 of 100", [line])]))
        page = visit(site, f"/messages/{id}")
        expect(page.get_by_text("page 40 of 100")).to_be_visible()
        expect(page.get_by_label("progress of the task")).to_have_attribute("value", "0.400")
        expect(page.get_by_label("log of the task")).to_have_text(line)
        assert page.evaluate("window.pwned") is None
        page.get_by_role("link", name="1", exact=True).click()
        page.wait_for_url("**/batches/1")
        members = page.get_by_label("Messages").get_by_role("link")
        assert members.all_text_contents() == [str(id), str(id + 1)]
        expect(members.first).to_have_attribute("href", f"/messages/{id}")
        page.goto("/batches")
        row = page.locator("#batch-1")
        expect(row).to_contain_text("import")
        assert twin(site, "/batches.json")["batches"][0]["pending"] == 2
        page.goto("/batches/1/cancel")
        page.get_by_role("button", name="Cancel the batch").click()
        page.wait_for_url("**/batches?done=*")
        page.wait_for_function(
            "async () => (await (await fetch('/batches.json')).text()).includes('finished')"
        )
        page.reload()
        expect(page.locator("#batch-1")).to_contain_text("finished")
        assert twin(site, "/batches.json")["batches"][0]["cancelled"] == 2


def test_the_numbers_of_a_batch_lead_to_its_members(
    make_site: MakeSite, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST", 2)
    with make_site() as site:
        site.client.create_queue("emails")
        site.db.execute("select penstock.create_batch('import')")
        add = "select penstock.add_to_batch(1, 'emails', array_fill('1'::jsonb, array[5]))"
        ids = [str(row[0]) for row in site.db.execute(add).fetchall()]
        [lease] = site.client.claim("emails")
        site.client.reject(lease, "no")
        page = visit(site, "/batches")
        page.locator("#batch-1").get_by_role("link", name="1", exact=True).last.click()
        page.wait_for_url("**/batches/1?members=dead")
        assert twin(site, "/batches/1.json?members=dead")["ids"] == [str(lease.id)]
        page.get_by_role("link", name="Not ended").click()
        links = page.get_by_label("Messages").get_by_role("link")
        ids.remove(str(lease.id))
        expect(links).to_have_text(ids[:2])
        page.get_by_role("link", name="Next").click()
        expect(links).to_have_text(ids[2:])
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_text("There are no further members.")).to_be_visible()
        page.get_by_role("link", name="From the first").click()
        expect(links).to_have_text(ids[:2])
