"""Every page, as a person comes to it: by links, with a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from playwright.sync_api import Locator, Page, expect
from tests.ui import stages
from tests.ui.conftest import MakeSite, Site, Visit, twin

from penstock.commands.write.sessions import end_session
from penstock.server.ui.pages import queues
from penstock.server.ui.runbooks import as_markdown

PAGES = [
    "/",
    "/queues",
    "/queues/invoices/",
    "/messages?state=dead",
    "/dead-letters",
    "/workers",
    "/schedules",
    "/analytics",
    "/system",
    "/activity",
    "/runbooks",
    "/bulk-acts",
    "/batches",
    "/subscriptions",
    "/services",
    "/services/local",
    "/keys",
    "/find?q=invoice",
]


def follow(page: Page, link: Locator) -> None:
    """Clicks what leads to another page, and waits until that one is there."""
    with page.expect_navigation():
        link.click()


def test_the_first_page_says_what_is_wrong_worst_first(make_site: MakeSite, visit: Visit) -> None:
    with make_site() as night:
        stages.sick(night.client, night.db)
        night.db.execute("select penstock.record_charts()")
        night.fresh()
        page = visit(night)
        expect(page).to_have_title(re.compile(r"\(!\) Overview"))
        severities = [w.strip() for w in page.locator(".finding .word").all_text_contents()]
        assert severities == ["critical"] * 2 + ["warning"] * 5
        for words in (
            "invoices has no worker",
            "imports is full",
            "Most attempts on invoices fail",
            "reports is paused",
            "invoices has 20 dead letters",
            "Worker biller-1 is silent",
            "Schedule hourly-import does not fire",
        ):
            expect(page.get_by_role("link", name=words)).to_be_visible()
        page.close()


def test_the_oldest_ready_message_says_why_there_is_none(make_site: MakeSite, visit: Visit) -> None:
    with make_site() as site:
        site.client.create_queue("letters")
        page = visit(site)
        tile = page.get_by_role("link", name="Oldest ready")
        expect(tile).to_contain_text("no message is ready")
        site.client.pause("letters")
        site.client.enqueue("letters", 1)
        site.fresh()
        page.reload()
        expect(tile).to_contain_text("only in paused queues")
        page.close()


def test_details_of_an_act_are_shown_in_full(sick: Site, visit: Visit) -> None:
    error = "ValueError: it's " + "a long error " * 25
    sick.db.execute(
        "select penstock.record_activity(%s, %s, %s, jsonb_build_object(%s::text, %s::text))",
        ["ada", "redrive", "audited", "error_like", error],
    )
    page = visit(sick, "/activity?target=audited", viewport={"width": 1024, "height": 900})
    details = page.get_by_role("cell").filter(has_text="error_like")
    expect(details).to_contain_text(error.strip())
    shown = details.locator("code")
    assert shown.evaluate("e => e.scrollWidth - e.clientWidth") <= 1


def test_findings_of_a_kind_are_grouped_and_hide_no_other(
    make_site: MakeSite, visit: Visit
) -> None:
    with make_site() as night:
        for n in range(11):
            night.client.create_queue(f"idle-{n}")
            night.client.enqueue(f"idle-{n}", n)
            stages.age(night.db, f"idle-{n}", hours=1)
        night.client.create_queue("imports", max_depth=1)
        night.client.enqueue("imports", 1)
        night.fresh()
        page = visit(night)
        expect(page.locator(".finding")).to_have_count(2)
        first = page.locator(".finding").first
        expect(first).to_contain_text("11 queues have no worker")
        expect(first).to_contain_text("and 6 more, with 11 messages")
        expect(page.locator(".finding").last).to_contain_text("imports is full")
        first.get_by_role("link", name="Start a worker for the queue.").click()
        expect(page.get_by_role("heading", name="A queue has no worker")).to_be_in_viewport()
        page.close()


def test_runbooks_show_commands_as_code(sick: Site) -> None:
    with sick.http("reader") as http:
        page = http.get("/runbooks").text
    assert "<code>penstock lake run</code>" in page
    assert "`" not in page.partition("<main")[2]


def test_every_runbook_is_in_the_documentation() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "runbooks.md"
    assert page.read_text("utf-8") == as_markdown()


def test_an_empty_system_says_so_and_offers_the_first_step(empty: Site, visit: Visit) -> None:
    page = visit(empty)
    expect(page.get_by_text("All is well.")).to_be_visible()
    expect(page.get_by_role("link", name="Create a queue")).to_be_visible()
    for path, words in (
        ("/queues", "There is no queue yet"),
        ("/messages", "No message is ready"),
        ("/dead-letters", "No dead letters"),
        ("/workers", "No worker was seen"),
        ("/schedules", "There is no schedule yet"),
        ("/analytics", "No lake is being filled"),
        ("/activity", "No action has been recorded yet"),
    ):
        page.goto(path)
        expect(page.get_by_text(words).first).to_be_visible()


def test_a_finding_leads_to_its_queue_and_from_there_to_its_messages(still: Site, visit: Visit):
    page = visit(still)
    page.get_by_role("link", name="invoices has no worker").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("invoices")
    expect(page.locator(".tile", has_text="Dead letters").locator(".value")).to_have_text("20")
    page.locator(".tile", has_text="Dead letters").click()
    expect(page.get_by_text("ValueError: amount <n> is not payable")).to_be_visible()
    row = page.get_by_role("row", name=re.compile("ValueError"))
    row.get_by_role("link", name="12", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(12)
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"Message \d+"))
    expect(page.locator(".story li")).to_have_count(3)
    expect(page.get_by_text("at line 77").first).to_be_visible()


def test_every_number_of_a_queue_leads_to_the_rows_behind_it(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues")
    row = page.locator("#line-emails")
    expect(row).to_be_visible()
    shown = {
        label: int(row.locator(f"td[data-label='{label}'] a").inner_text())
        for label in ("Ready", "Leased", "Scheduled")
    }
    assert shown == {"Ready": 3, "Leased": 2, "Scheduled": 1}
    for label, number in shown.items():
        page.goto("/queues")
        page.locator(f"#line-emails td[data-label='{label}'] a").click()
        expect(page.locator("tbody tr")).to_have_count(number)


def test_the_address_of_a_queue_works_without_its_slash(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues/invoices")
    expect(page.get_by_role("heading", level=1)).to_contain_text("invoices")
    assert page.url.endswith("/queues/invoices/")


def test_an_unknown_address_is_a_page_for_browsers_and_a_problem_for_programs(
    sick: Site, visit: Visit
) -> None:
    page = visit(sick, "/nothing-here")
    expect(page.get_by_text("this path does not exist")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page).to_have_url(f"{sick.url}/")
    with sick.http() as http:
        for path in ("/nothing-here", "/api/nothing-here"):
            answer = http.get(path)
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/problem+json"


def test_each_chart_has_its_own_axis_and_shows_values(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues/emails/")
    captions = [text.split("\n")[0] for text in page.locator(".chart figcaption").all_inner_texts()]
    for number, name in enumerate(
        ("Rate per minute", "Wait", "Run time", "Ready", "Leased", "Dead letters")
    ):
        assert captions[number].startswith(name)
    chart = page.locator(".chart", has_text="Wait")
    chart.locator("svg[data-points]").hover()
    expect(chart.locator(".values")).to_have_text(
        re.compile(r"\d\d:\d\d: p50 [\d.]+ m?s, p95 [\d.]+ m?s, p99 [\d.]+ m?s")
    )
    page.mouse.move(0, 0)
    expect(chart.locator(".values")).to_be_hidden()
    chart.locator("svg[data-points]").focus()
    page.keyboard.press("ArrowLeft")
    last = chart.locator(".values").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(chart.locator(".values")).not_to_have_text(last)


@pytest.mark.parametrize("range_", ["1 h", "6 h", "24 h", "7 d", "30 d", "90 d"])
def test_charts_cover_the_range_that_was_asked_for(sick: Site, range_: str) -> None:
    for path in ("/overview.json", "/queues/emails.json"):
        charts = twin(sick, f"{path}?range={range_}")["charts"]
        lengths = {len(charts[name]) for name in ("at", "ready", "dead", "done_per_minute")}
        lengths |= {len(line) for line in charts["wait_seconds"].values()}
        assert len(lengths) == 1
        assert min(lengths) >= 30
        assert max(filter(None, charts["done_per_minute"])) > 100
        assert max(filter(None, charts["wait_seconds"]["p99"])) > 1


def test_charts_survive_a_restart_of_the_server(make_site: MakeSite) -> None:
    """A server that starts shows what another has recorded."""
    with make_site() as site:
        site.client.create_queue("emails")
        for _ in range(5):
            site.client.enqueue("emails", 1)
        for lease in site.client.claim("emails", 3):
            site.client.ack(lease)
        site.db.execute("select penstock.record_charts()")
        site.db.execute(
            "update penstock.chart_point set at = at - interval '2 minutes' where not is_hour"
        )
        charts = twin(site, "/queues/emails.json")["charts"]
        assert sum(filter(None, charts["done_per_minute"])) == 3
        assert 2 in charts["ready"][:-1]
        assert 2 in twin(site, "/queues.json")["queues"][0]["trend"]


def test_queues_are_found_sorted_and_filtered_by_the_address(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues")
    page.get_by_label("Sort by").select_option("dead")
    follow(page, page.get_by_role("button", name="Show"))
    expect(page.locator("tbody th a").first).to_have_text("invoices")
    assert "sort=dead" in page.url
    page.get_by_label("Only").select_option("paused")
    follow(page, page.get_by_role("button", name="Show"))
    assert page.locator("tbody th a").all_inner_texts() == ["reports"]
    page.goto("/queues?q=voic")
    assert page.locator("tbody th a").all_inner_texts() == ["invoices"]


@pytest.fixture(scope="module")
def still(make_site: MakeSite) -> Iterator[Site]:
    """Nothing moves here: on the shared site other tests' queues do, from one page to the next."""
    with make_site() as made:
        stages.sick(made.client, made.db)
        made.fresh()
        yield made


@pytest.mark.parametrize("sort", queues.SORTS)
def test_queues_are_paged_by_place(still: Site, monkeypatch: pytest.MonkeyPatch, sort: str) -> None:
    address = f"/queues.json?sort={sort}"
    everything = [each["name"] for each in twin(still, address)["queues"]]
    monkeypatch.setattr(queues, "PAGE", 2)
    page = twin(still, address)
    seen = [each["name"] for each in page["queues"]]
    while page["next"]:
        page = twin(still, f"{address}&after={quote(page['next'])}")
        seen += [each["name"] for each in page["queues"]]
    assert seen == everything


def test_a_link_leads_to_the_next_queues(
    still: Site, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = [each["name"] for each in twin(still, "/queues.json?sort=ready")["queues"]]
    monkeypatch.setattr(queues, "PAGE", 3)
    page = visit(still, "/queues?sort=ready")
    follow(page, page.get_by_role("link", name="Next"))
    assert page.locator("tbody th a").all_inner_texts() == everything[3:6]
    assert "sort=ready" in page.url


def test_a_queue_that_comes_or_goes_moves_no_other_to_another_page(
    sick: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.client.create_queue("a-first")
    sick.fresh()
    monkeypatch.setattr(queues, "PAGE", 3)
    first = twin(sick, "/queues.json")
    second = twin(sick, f"/queues.json?after={first['next']}")["queues"]
    sick.client.drop_queue("a-first")
    sick.fresh()
    again = twin(sick, f"/queues.json?after={first['next']}")["queues"]
    assert [each["name"] for each in again] == [each["name"] for each in second]


def test_a_place_that_is_none_is_refused(sick: Site) -> None:
    with sick.http("admin") as http:
        answer = http.get("/queues.json?after=last")
    assert answer.status_code == 422
    assert "12:emails" in answer.text


@pytest.mark.parametrize(
    ("typed", "leads_to"),
    [
        ("invoices", "/queues/invoices/"),
        ("invoice-3", "/find?q=invoice-3"),
        ("mail", "/find?q=mail"),
    ],
)
def test_the_box_at_the_top_finds(sick: Site, visit: Visit, typed: str, leads_to: str) -> None:
    page = visit(sick)
    page.keyboard.press("/")
    page.keyboard.type(typed)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{leads_to}*")


def test_a_number_is_found_as_an_id_and_as_a_text(sick: Site, visit: Visit) -> None:
    id = sick.client.enqueue("emails", {"to": "ada@example.com"}, delay=3600)
    other = sick.client.enqueue("emails", {"answers": id}, key=str(id), delay=3600)
    page = visit(sick)
    page.get_by_role("searchbox").fill(str(id))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {id}")
    follow(page, page.get_by_role("link", name=f"Search for {id}"))
    expect(page.get_by_role("searchbox")).to_have_value(str(id))
    expect(page.get_by_role("link", name=str(other), exact=True).first).to_be_visible()


def test_the_name_of_a_queue_is_found_as_a_queue_and_as_a_text(sick: Site, visit: Visit) -> None:
    id = sick.client.enqueue("invoices", {"came": "from emails"}, delay=3600)
    page = visit(sick)
    page.get_by_role("searchbox").fill("emails")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("emails")
    follow(page, page.get_by_role("link", name="Search for emails in keys"))
    expect(page.get_by_role("link", name=str(id), exact=True).first).to_be_visible()
    page.goto("/queues/emails/")
    expect(page.get_by_role("link", name="Search for emails in keys")).to_have_count(0)


@pytest.mark.parametrize("path", ["/", "/queues/emails/"])
def test_a_rate_says_over_which_time_it_is_an_average(sick: Site, visit: Visit, path: str) -> None:
    tile = visit(sick, path).locator(".tile", has_text="Done / min")
    expect(tile.locator(".hint")).to_have_text(re.compile(r"^average of 5 min, [\d.,]+ failed$"))


@pytest.mark.parametrize("state", ["ready", "scheduled", "grouped", "leased", "dead", "done"])
def test_the_search_finds_a_text_in_every_state(sick: Site, state: str) -> None:
    client, word = sick.client, f"needle{state}"
    if f"hay-{state}" not in {queue.name for queue in client.queues()}:
        client.create_queue(f"hay-{state}", max_attempts=1)
    ids = [
        client.enqueue(f"hay-{state}", {"text": f"a {word} b"}, **{
            "scheduled": {"delay": 3600}, "grouped": {"group": "g"}}.get(state, {})),  # type: ignore[dict-item]
        client.enqueue(f"hay-{state}", 1, key=f"key-{word}"),
        client.enqueue(f"hay-{state}", 1, headers={"h": word}),
        client.enqueue(f"hay-{state}", b"bytes " + word.encode()),
        client.enqueue(f"hay-{state}", {"large": word + "x" * 5000}),
    ]  # fmt: skip
    if state in ("leased", "dead", "done"):
        for lease in client.claim(f"hay-{state}", 5, lease_seconds=600):
            if state == "dead":
                client.reject(lease, "no")
            elif state == "done":
                client.ack(lease)
    page = twin(sick, f"/find.json?q={word.upper()}")
    assert sorted(int(each["id"]) for each in page["messages"]) == ids
    assert (page["progress"]["percent"], page["next"], page["queues"]) == (100, None, [])


def test_the_search_names_queues_and_workers_and_says_where_it_looked(
    sick: Site, visit: Visit
) -> None:
    page = visit(sick, "/find?q=mail")
    found = page.get_by_role("region", name="With this text")
    expect(found).to_contain_text("key, group, worker, error, headers and payload")
    expect(found).to_contain_text(re.compile(r"in \d+ % of what is stored: scheduled"))
    expect(page.get_by_role("link", name="queue emails")).to_be_visible()
    expect(page.get_by_role("link", name="worker mailer-1")).to_be_visible()


def test_a_message_is_found_by_its_id_and_its_key_leads_to_the_others(sick: Site, visit: Visit):
    id = twin(sick, "/messages.json?queue=invoices")["messages"][0]["id"]
    page = visit(sick)
    page.get_by_role("searchbox").fill(str(id))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Message {id}")
    expect(page.get_by_text("Attempt 1 failed")).to_be_visible()
    expect(page.locator("pre.payload").first).to_contain_text('"invoice"')


def test_messages_are_paged_by_place_and_filtered(sick: Site, visit: Visit) -> None:
    client = sick.client
    client.create_queue("paged")
    for n in range(120):
        client.enqueue("paged", n, key=f"page-{n}")
    page = visit(sick, "/messages?queue=paged")
    seen = page.locator("tbody th").all_inner_texts()
    while page.get_by_role("link", name="Next").count():
        follow(page, page.get_by_role("link", name="Next"))
        seen += page.locator("tbody th").all_inner_texts()
    assert len(seen) == len(set(seen)) == 120
    page.get_by_label("Key", exact=True).fill("page-77")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_workers_and_whoever_else_holds_leases(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/workers")
    workers = page.locator("table").first
    expect(workers.get_by_role("row", name=re.compile("biller-1"))).to_contain_text("silent")
    expect(workers.get_by_role("row", name=re.compile("mailer-1"))).to_contain_text("running")
    workers.get_by_role("row", name=re.compile("mailer-1")).get_by_role("link", name="2").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_analytics_draw_the_gold_tables(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/analytics")
    expect(page.locator("figure.chart svg[role=img]")).to_have_count(6)
    expect(page.get_by_text("smtp timeout after <n> s")).to_be_visible()
    page.get_by_label("Range").select_option("30 d")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("row", name=re.compile("^emails"))).to_contain_text("103 k")
    page.get_by_role("link", name="emails").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("of emails")


def test_the_system_page_shows_the_session_that_pins_the_horizon_and_ends_it(
    sick: Site, visit: Visit
) -> None:
    with psycopg.connect(sick.dsn, application_name="nightly report") as forgotten:
        forgotten.execute("select pg_current_xact_id(), 'a slow report'")
        pid = forgotten.info.backend_pid
        page = visit(sick, "/system", "operator")
        row = page.get_by_role("row", name=re.compile("nightly report"))
        expect(row).to_contain_text(f"pid {pid}")
        expect(row).to_contain_text("a slow report")
        expect(row).to_contain_text("idle in transaction")
        expect(row.get_by_role("link", name="End session")).to_have_count(0)  # for admins
        page = visit(sick, "/system")
        row = page.get_by_role("row", name=re.compile("nightly report"))
        row.get_by_text("More", exact=True).click()
        row.get_by_role("link", name="End session").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("a slow report")
        dialog.get_by_role("button", name="End the session").click()
        done = page.get_by_role("status").filter(has_text=f"Ended session {pid} of nightly report")
        expect(done).to_be_visible()
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")
        page.goto("/activity")
        expect(page.locator("tbody tr").first).to_contain_text(f"Ended session {pid}")


def test_a_connection_of_penstock_is_never_to_be_ended(sick: Site, visit: Visit) -> None:
    with psycopg.connect(sick.dsn, application_name="penstock worker") as ours:
        ours.execute("select pg_current_xact_id()")
        pid = ours.info.backend_pid
        page = visit(sick, "/system")
        row = page.get_by_role("row", name=re.compile(f"pid {pid}"))
        expect(row).to_contain_text("It is a connection of Penstock")
        expect(row).not_to_contain_text("pg_terminate_backend")
        expect(row.get_by_role("link", name="End session")).to_have_count(0)
        holders = twin(sick, "/system.json")["holders"]
        (begun,) = [h["holder"]["begun"] for h in holders if h["holder"]["pid"] == pid]
        assert sick.client.run(end_session(pid, begun)) is False
        ours.execute("select 1")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_twin_for_scripts(sick: Site, path: str) -> None:
    with sick.http("admin") as http:
        (href,) = re.findall(r'<a href="([^"]+)">This page as JSON</a>', http.get(path).text)
    assert twin(sick, unescape(href))
    with sick.http() as http:
        assert http.get(unescape(href)).status_code == 401


def test_without_scripts_pages_and_acts_work(sick: Site, visit: Visit) -> None:
    sick.client.create_queue("plain")
    page = visit(sick, "/queues/plain/", java_script_enabled=False)
    page.get_by_role("link", name="Pause").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").filter(has_text="Paused plain")).to_be_visible()
    page.get_by_role("button", name="dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
