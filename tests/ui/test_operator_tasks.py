"""What an operator on call does, from the page that shows the trouble, in three clicks at most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect
from psycopg.types.json import Jsonb
from tests.ui import stages
from tests.ui.conftest import MakeSite, Site, Visit, twin
from tests.ui.test_actions import told

from penstock.model.monitoring import FindingNote
from penstock.model.queue import Queue, QueueSettings, QueueStats
from penstock.server.auth.api_keys import new_key
from penstock.server.monitoring.snapshots import Snapshot
from penstock.server.ui.diagnosis import diagnose
from penstock.server.ui.findings import QUEUE_KINDS, Finding, grouped
from penstock.server.ui.pages import queues

HOUR = timedelta(hours=1)


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

    name = f"penstockClicked{uuid4().hex}"  # a test may count more than once
    page.expose_function(name, clicked)
    count = f"addEventListener('click', e => e.isTrusted && {name}(), true)"
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
    with at_most(page, 2):
        row.get_by_role("link", name="Resume").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        expect(page.get_by_role("status").first).to_contain_text(f"Resumed worker {worker}")
    told(page, f"Resumed worker {worker}")
    assert report(sick, worker, queue) is None


def test_stop_a_worker(sick: Site, visit: Visit, queue: str) -> None:
    worker = f"old-{uuid4().hex[:6]}"
    report(sick, worker, queue)
    sick.fresh()
    page = visit(sick, "/workers", "operator")
    row = page.locator("table").first.get_by_role("row", name=worker)
    with at_most(page, 3):
        row.get_by_text("More", exact=True).click()
        row.get_by_role("link", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").first).to_contain_text(worker)
    assert report(sick, worker, queue) == "stop"


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


def late(site: Site, queue: str) -> None:
    """Messages of the queue have waited for an hour, and no worker serves it."""
    stages.age(site.db, queue, hours=1)
    site.fresh()


def test_acknowledge_a_finding_with_a_reason_and_an_end(make_site: MakeSite, visit: Visit) -> None:
    with make_site() as site:
        site.client.create_queue("mails")
        site.client.enqueue("mails", 1)
        late(site, "mails")
        page = visit(site, "/", "operator")
        finding = page.locator(".finding", has_text="mails has no worker")
        with at_most(page, 3):
            finding.get_by_text("Mark", exact=True).click()
            finding.get_by_role("link", name="Acknowledge").click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Reason").fill("deploy under way")
            dialog.get_by_role("button", name="Acknowledge").click()
            expect(finding).to_contain_text("Acknowledged by operator")
        expect(finding).to_contain_text("deploy under way")
        expect(page.get_by_text("All is well.")).to_be_visible()
        # It gets worse in another way: that is a separate finding.
        site.client.set_queue("mails", max_depth=1)
        site.fresh()
        page.goto("/")
        expect(page.locator(".finding").first).to_contain_text("mails is full")
        page.goto("/activity")
        expect(page.locator("tbody tr").first).to_contain_text(
            "Acknowledged finding no-worker of mails: deploy under way"
        )


def test_mute_a_group_of_findings_and_show_them_again(make_site: MakeSite, visit: Visit) -> None:
    with make_site() as site:
        for name in ("a", "b", "c"):
            site.client.create_queue(name)
            site.client.enqueue(name, 1)
            late(site, name)
        page = visit(site, "/", "operator")
        expect(page.locator(".finding")).to_have_count(1)
        page.locator(".finding").get_by_text("Mark", exact=True).click()
        page.locator(".finding").get_by_role("link", name="Mute").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".counted")).to_have_text("3 findings")
        dialog.get_by_label("Reason").fill("old queues")
        dialog.get_by_label("For").select_option("7 days")
        dialog.get_by_role("button", name="Mute").click()
        expect(page.get_by_text("3 muted")).to_be_visible()
        expect(page.locator("tbody .mark")).to_have_count(0)
        # A queue that comes later is not muted with them.
        site.client.create_queue("d")
        site.client.enqueue("d", 1)
        late(site, "d")
        page.goto("/")
        expect(page.locator(".finding").first).to_contain_text("d has no worker")
        page.get_by_text("3 muted").click()
        page.locator("details.muted .finding").get_by_text("Mark", exact=True).click()
        page.locator("details.muted").get_by_role("link", name="Show as new").click()
        page.get_by_role("dialog").get_by_role("button", name="Show as new").click()
        expect(page.locator(".finding").first).to_contain_text("4 queues have no worker")


def test_a_group_of_findings_links_to_a_page_that_lists_its_queues(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    with make_site() as site:
        for name in (*names, "calm"):
            site.client.create_queue(name)
        for name in names:
            site.client.enqueue(name, 1)
            site.client.reject(site.client.claim(name, 1)[0], "no")
            site.client.pause(name)
        for kind in QUEUE_KINDS:
            found = [
                Finding(kind=kind, subject=name, severity="note", title=name, text="", href="/",
                        queue=name)
                for name in names
            ]  # fmt: skip
            monkeypatch.setattr(queues, "diagnose", lambda _, found=found: found)
            [group] = grouped(found)
            path, mark, query = group.href.partition("?")
            listed = twin(site, f"{path}.json{mark}{query}")["queues"]
            assert names == sorted(each["name"] if mark else each[0] for each in listed), kind


def test_a_note_does_not_count_for_a_finding_that_got_worse_or_after_its_end() -> None:
    at = datetime.now(UTC)
    stats = QueueStats("mails", 95, 0, 0, 0, 1.0, False)
    queue = Queue("mails", QueueSettings(max_depth=100), at, at)
    note = FindingNote("full", "mails", "muted", "warning", "known", "ada", at, at + HOUR)
    nearly = Snapshot(1, at, stats=[stats], exact=[stats], queues=[queue], notes=[note])
    [finding] = diagnose(nearly)
    assert finding.is_muted
    full = replace(nearly, exact=[replace(stats, ready=100)])
    [finding] = diagnose(full)
    assert (finding.severity, finding.note) == ("critical", None)
    [finding] = diagnose(replace(nearly, at=at + 2 * HOUR))
    assert finding.note is None


@pytest.mark.parametrize("by", ["id", "key", "payload"])
def test_find_a_dead_letter_and_retry_it(sick: Site, visit: Visit, by: str) -> None:
    word = f"w{uuid4().hex[:12]}"
    visit(sick, "/queues", "operator")  # the server keeps this list of queues for some seconds
    sick.client.create_queue(f"q-{word}", max_attempts=1)
    id = sick.client.enqueue(f"q-{word}", {"note": f"p{word}"}, key=f"k{word}")
    (lease,) = sick.client.claim(f"q-{word}", 1)
    sick.client.reject(lease, "no good")
    page = visit(sick, "/", "operator")
    page.get_by_role("searchbox").fill({"id": str(id), "key": f"k{word}"}.get(by, f"p{word}"))
    with page.expect_navigation():
        page.keyboard.press("Enter")
    link = page.get_by_role("link", name=str(id), exact=True)
    further = page.get_by_role("link", name="Search further")
    while by != "id" and not link.count() and further.count():  # on a slow machine
        with page.expect_navigation():
            further.click()
    with at_most(page, 3):
        if by != "id":
            link.first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {id}")
        page.get_by_role("link", name="Requeue", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Requeue").click()
        expect(page.get_by_role("status").first).to_be_visible()
    assert sick.client.stats(f"q-{word}").ready == 1


def test_redrive_a_class_of_errors(sick: Site, visit: Visit, queue: str) -> None:
    for n, lease in enumerate(sick.client.claim(queue, 5)):
        sick.client.reject(lease, f"Timeout after {n} s" if n < 3 else "KeyError: 'address'")
    sick.fresh()
    page = visit(sick, f"/queues/{queue}/", "operator")
    with at_most(page, 3):
        page.locator(".tile", has_text="Dead letters").click()
        row = page.get_by_role("row", name=re.compile("Timeout"))
        row.get_by_role("link", name="Redrive").click()
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        expect(page.get_by_role("status").first).to_contain_text("Redrove 3 dead letters")
    assert (sick.client.stats(queue).ready, sick.client.stats(queue).dead) == (8, 2)


def test_pause_a_queue(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    with at_most(page, 3):
        page.get_by_role("link", name="Pause", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
    assert sick.client.claim(queue, 1) == []
    sick.client.resume(queue)  # other tests list the paused queues


def test_change_a_limit(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    with at_most(page, 3):
        page.get_by_role("link", name="Edit", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Maximum leased at once").fill("3")
        dialog.get_by_role("button").first.click()
        expect(page.get_by_role("status").first).to_contain_text(queue)
    assert len(sick.client.claim(queue, 10)) == 3


def test_find_who_pins_the_horizon_and_end_the_session(sick: Site, visit: Visit) -> None:
    with psycopg.connect(sick.dsn, application_name="month end report") as forgotten:
        forgotten.execute("select pg_current_xact_id()")
        page = visit(sick, "/system")
        row = page.get_by_role("row", name=re.compile("month end report"))
        with at_most(page, 3):
            row.get_by_text("More", exact=True).click()
            row.get_by_role("link", name="End session").click()
            page.get_by_role("dialog").get_by_role("button", name="End the session").click()
            expect(page.get_by_role("status").first).to_contain_text("of month end report")
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")


def test_revoke_a_key_and_see_who_did_it(sick: Site, visit: Visit) -> None:
    name = f"leaked-{uuid4().hex[:6]}"
    key = new_key(name, ["read"])
    sick.client.run(key.command)
    page = visit(sick, "/keys")
    row = page.get_by_role("row", name=name)
    with at_most(page, 3):
        row.get_by_text("More", exact=True).click()
        row.get_by_role("link", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row", name=name)).to_have_count(0)
    bearer = {"Authorization": f"Bearer {key.token}"}
    assert httpx.get(f"{sick.url}/api/stats", headers=bearer).status_code == 401
    with at_most(page, 1):
        page.get_by_role("navigation").get_by_role("link", name="Activity").click()
        first = page.locator("tbody tr").first
        expect(first).to_contain_text(f"Revoked API key {name}")
        expect(first).to_contain_text("admin")


def test_a_created_key_is_copied(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/keys/create", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Name").fill(f"made-{uuid4().hex[:6]}")
    page.get_by_label("Scopes").fill("read")
    page.get_by_role("button", name="Create").click()
    copy = page.get_by_role("button", name="Copy the key")
    copy.click()
    expect(copy).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("psk_")
    assert copied == page.locator("#new-key").text_content()


def test_change_the_scopes_of_a_key(sick: Site, visit: Visit) -> None:
    name = f"shop-{uuid4().hex[:6]}"
    key = new_key(name, ["read"])
    sick.client.run(key.command)
    page = visit(sick, "/keys")
    row = page.get_by_role("row", name=name)
    with at_most(page, 3):
        row.get_by_role("link", name="Change").click()
        page.get_by_role("dialog").get_by_label("Scopes").fill("enqueue")
        page.get_by_role("dialog").get_by_role("button", name="Change").click()
        expect(row.locator("td[data-label=Scopes]")).to_have_text("enqueue")
    bearer = {"Authorization": f"Bearer {key.token}"}
    assert httpx.get(f"{sick.url}/api/stats", headers=bearer).status_code == 403


def test_purge_a_queue_by_its_name_and_undo_it(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    with at_most(page, 3):
        page.get_by_text("More", exact=True).click()
        page.get_by_role("link", name="Purge", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type the name").fill(queue)
        dialog.get_by_role("button", name="Purge").click()
        expect(page.get_by_text("10 messages were purged")).to_be_visible()
    assert sick.client.stats(queue).ready == 0
    with at_most(page, 2):
        page.get_by_role("link", name="Undo").click()
        page.get_by_role("dialog").get_by_role("button", name="Undo the purge").click()
        expect(page.get_by_text("messages were purged")).to_have_count(0)
    told(page, "Undid a purge: enqueued 10 copies")
    assert sick.client.stats(queue).ready == 10


def test_a_purge_without_the_name_does_nothing(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/purge", "operator")
    page.get_by_label("Type the name").fill("another")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert sick.client.stats(queue).ready == 10


def test_move_all_that_a_list_shows_to_another_queue(sick: Site, visit: Visit, queue: str) -> None:
    other = f"{queue}-other"
    sick.client.create_queue(other)
    page = visit(sick, f"/messages?state=ready&queue={queue}", "operator")
    with at_most(page, 3):
        page.get_by_role("link", name="Move all").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".counted b")).to_have_text("10")
        dialog.get_by_label("Into queue").fill(other)
        dialog.get_by_role("button", name="Move").click()
        row = page.locator("tbody tr", has_text=f"into {other}")
        expect(row).to_contain_text("done")
    expect(row.locator("td[data-label=Changed]")).to_have_text("10")
    assert sick.client.stats(other).ready == 10
    told(page, f"Requested a bulk act: move in {queue}")


def test_follow_a_slow_bulk_act_and_stop_it(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/messages?state=ready&queue={queue}", "operator")
    page.locator(".bulk").get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Cancel all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Messages per second").fill("0.01")
    dialog.get_by_role("button", name="Cancel").click()
    row = page.locator("tbody tr", has_text=queue)
    expect(row.locator("td[data-label=Changed]")).to_have_text("1")
    bar = row.get_by_role("progressbar", name="progress")
    expect(bar).to_have_attribute("value", "0.1000")
    expect(row.locator("td[data-label=Status]")).to_contain_text("10 %")
    expect(row.locator("td[data-label=Matched]")).to_have_text("1 of 10")
    with at_most(page, 3):
        row.get_by_text("More", exact=True).click()
        row.get_by_role("link", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="Stopped bulk act")).to_be_visible()
    assert sick.client.stats(queue).ready == 9


def test_count_what_a_bulk_act_would_change_and_then_change_priorities(
    sick: Site, visit: Visit, queue: str
) -> None:
    page = visit(sick, f"/messages?state=ready&queue={queue}", "operator")

    def change(*, dry: bool) -> None:
        page.goto(f"/messages?state=ready&queue={queue}")
        page.get_by_role("link", name="Change priority").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Priority").fill("5")
        dialog.get_by_label("Dry run").set_checked(dry)
        dialog.get_by_role("button", name="Change").click()
        row = page.locator("tbody tr", has_text=queue).first
        expect(row).to_contain_text("dry run" if dry else "to 5")
        what = "a dry run of a bulk act" if dry else "a bulk act"
        done = page.get_by_role("status").filter(has_text=f"Requested {what}: change the priority")
        expect(done).to_be_visible()
        expect(row).to_contain_text("done")
        expect(row.locator("td[data-label=Matched]")).to_have_text("10 of 10")
        expect(row.locator("td[data-label=Status]")).to_contain_text("100 %")
        expect(row.locator("td[data-label=Changed]")).to_have_text("0" if dry else "10")

    query = "select array_agg(distinct priority) from penstock.messages where queue = %s"
    change(dry=True)
    assert sick.db.execute(query, [queue]).fetchall() == [([0],)]
    change(dry=False)
    assert sick.db.execute(query, [queue]).fetchall() == [([5],)]
