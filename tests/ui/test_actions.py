"""Every act, as a person does it: button, question with its count, answer, record."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect
from tests.engine.conftest import wait_for
from tests.ui.conftest import Site, Visit, twin
from tests.ui.test_message_page import csrf

from penstock.commands.read import overdue


def confirm(page: Page, button: str, count: str | None = None, **fields: str) -> None:
    """Answers the question that a dialog asks."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if count is not None:
        expect(dialog.locator(".counted b")).to_have_text(count)
    for label, value in fields.items():
        field = dialog.get_by_label(label.replace("_", " "))
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    dialog.get_by_role("button", name=button).click()


def open_menu(scope: Page | Locator) -> None:
    """What cannot be undone is in a menu."""
    scope.get_by_text("More", exact=True).click()


def told(page: Page, words: str) -> None:
    """The result is on the page, and in the record with the name of the operator."""
    expect(page.get_by_role("status").filter(has_text=words)).to_be_visible()
    page.goto("/activity")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text(words)
    expect(row).to_contain_text("operator")


@pytest.fixture
def queue(sick: Site) -> str:
    """A queue of the test's own, with ten messages; no word of its name is on a button."""
    name = f"q{uuid4().hex[:10]}"
    sick.client.create_queue(name, max_attempts=2)
    for n in range(10):
        sick.client.enqueue(name, {"n": n})
    return name


def kill(site: Site, queue: str, count: int, error: str = "no good: {}") -> None:
    for n, lease in enumerate(site.client.claim(queue, count)):
        site.client.reject(lease, error.format(n))


def test_pause_and_resume(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    page.get_by_role("link", name="Pause").click()
    confirm(page, "Pause", "10")
    expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
    assert sick.client.claim(queue, 1) == []
    page.get_by_role("link", name="Resume").first.click()
    confirm(page, "Resume", "10")
    told(page, f"Resumed {queue}")
    assert len(sick.client.claim(queue, 1)) == 1


def test_to_refuse_a_question_does_nothing(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    open_menu(page)
    page.get_by_role("link", name="Purge", exact=True).click()
    page.get_by_role("dialog").get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    open_menu(page)
    page.get_by_role("link", name="Purge", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert sick.client.stats(queue).ready == 10


def test_purge_up_to_a_limit(sick: Site, visit: Visit, queue: str) -> None:
    for n in range(110):
        sick.client.enqueue(queue, n)
    page = visit(sick, f"/queues/{queue}/", "operator")
    open_menu(page)
    page.get_by_role("link", name="Purge", exact=True).click()
    confirm(page, "Purge", "120", At_most="100", Type_the_name=queue)
    told(page, f"Purged 100 messages of {queue}")
    assert sick.client.stats(queue).ready == 20


def test_redrive_by_kind_of_error(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 4, "Timeout after {} s")
    kill(sick, queue, 3, "100% _wrong_: {}")
    page = visit(sick, f"/dead-letters?queue={queue}", "operator")
    page.get_by_role("row", name=re.compile("_wrong_")).get_by_role("link", name="Redrive").click()
    expect(page.get_by_role("dialog")).to_contain_text("Error like")
    confirm(page, "Redrive", "3")
    told(page, f"Redrove 3 dead letters of {queue}")
    assert sick.client.stats(queue).dead == 4
    assert sick.client.stats(queue).ready == 6


def test_errors_of_one_cause_are_one_kind_and_redriven_together(
    sick: Site, visit: Visit, queue: str
) -> None:
    frames = 'Traceback (most recent call last):\n  File "/app/a.py", line {n}, in pay\n    pay()\n'
    causes = (
        frames + "S3Error: object {id} of 'user {n}' at 10.0.0.{n}:5432 is missing",
        frames + "KeyError: 'a'\n\nDuring handling of the above exception, another one:\n\n"
        + frames + "shop.CardError: card {id} of u{n}@example.com can't be charged {n}.50 EUR",
    )  # fmt: skip
    for n, lease in enumerate(sick.client.claim(queue, 10)):
        error = causes[n % 2].format(n=n, id=f"{n:x}f{uuid4().hex[:9]}a1")
        sick.client.reject(lease, error)
    page = visit(sick, f"/dead-letters?queue={queue}", "operator")
    masks = (
        "S3Error: object <n> of <value> at <address> is missing",
        "shop.CardError: card <n> of <address> can't be charged <n> EUR",
    )
    expect(page.locator("tbody tr")).to_have_count(2)
    for mask in masks:
        expect(page.locator("tbody th", has_text=mask)).to_have_count(1)
    row = page.get_by_role("row", name=re.compile("S3Error"))
    expect(row.locator(".dim")).to_have_count(3)  # examples
    row.get_by_role("link", name="Redrive").click()
    confirm(page, "Redrive", "5")
    told(page, f"Redrove 5 dead letters of {queue}")
    (left,) = twin(sick, f"/dead-letters.json?queue={queue}")["kinds"]
    assert (left["kind"], left["count"]) == (masks[1], 5)


def test_redrive_all_at_a_rate(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 5)
    page = visit(sick, f"/queues/{queue}/", "operator")
    page.get_by_role("link", name="Redrive").first.click()
    confirm(page, "Redrive", "5", Messages_per_second="0.001")
    told(page, f"Redrove 5 dead letters of {queue}")
    assert sick.client.stats(queue).scheduled == 4


def test_a_rate_that_is_none_is_asked_for_again(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 5)
    page = visit(sick, f"/queues/{queue}/redrive?error_like=no%25", "operator")
    page.get_by_label("Messages per second").fill("fast")
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("alert")).to_contain_text("“Messages per second” is 'fast'")
    expect(page.get_by_label("Messages per second")).to_have_value("fast")
    expect(page.locator(".facts")).to_contain_text("no%")
    assert sick.client.stats(queue).dead == 5


def test_redrive_and_cancel_those_that_are_chosen(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 4)
    page = visit(sick, f"/messages?state=dead&queue={queue}", "operator")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    page.get_by_role("button", name="Redrive the selected").click()
    confirm(page, "Redrive", "2")
    told(page, f"Redrove 2 dead letters of {queue}")
    page.goto(f"/messages?state=ready&queue={queue}")
    for box in page.get_by_role("checkbox").all()[:3]:
        box.check()
    page.locator("#chosen").get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Cancel the selected").click()
    confirm(page, "Cancel them", "3")
    told(page, "Cancelled 3 messages")
    stats = sick.client.stats(queue)
    assert (stats.dead, stats.ready) == (2, 5)


def test_purge_dead_letters(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 4)
    page = visit(sick, f"/queues/{queue}/", "operator")
    open_menu(page)
    page.get_by_role("link", name="Purge dead letters").click()
    confirm(page, "Purge dead letters", "4", Type_the_name=queue)
    told(page, f"Purged 4 messages of {queue}.dlq")
    assert sick.client.stats(queue).dead == 0


def test_a_dead_letter_is_requeued_and_cancelled(sick: Site, visit: Visit, queue: str) -> None:
    kill(sick, queue, 1)
    id = twin(sick, f"/messages.json?state=dead&queue={queue}")["messages"][0]["id"]
    page = visit(sick, f"/messages/{id}", "operator")
    page.get_by_role("link", name="Requeue").click()
    confirm(page, "Requeue", "1")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ready")
    open_menu(page)
    page.get_by_role("link", name="Cancel").click()
    confirm(page, "Cancel the message", "1")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    told(page, f"Cancelled message {id} of {queue}")


def test_a_finished_message_is_replayed_into_another_queue(
    sick: Site, visit: Visit, queue: str
) -> None:
    (lease,) = sick.client.claim(queue, 1)
    sick.client.ack(lease)
    sick.client.create_queue(f"{queue}-2")
    page = visit(sick, f"/messages/{lease.id}", "operator")
    page.get_by_role("link", name="Replay").click()
    confirm(page, "Replay", "1", Into_queue="nowhere")
    expect(page.get_by_role("alert")).to_contain_text("“Into queue” is 'nowhere'")
    page.get_by_label("Into queue").fill(f"{queue}-2")
    page.get_by_role("button", name="Replay").click()
    told(page, f"Replayed message {lease.id} into {queue}-2, as message")
    assert sick.client.stats(f"{queue}-2").ready == 1


def test_settings_are_edited_and_a_wrong_one_is_kept_to_correct(
    sick: Site, visit: Visit, queue: str
) -> None:
    page = visit(sick, f"/queues/{queue}/", "operator")
    page.get_by_role("link", name="Edit").click()
    confirm(page, "Save", **{"Lease, seconds": "99999999"}, Maximum_attempts="7")
    allowed = "a whole number from 1 to 43200, or empty for the default of 30"
    expect(page.get_by_role("alert")).to_have_text(
        f"“Lease, seconds” is '99999999'. Allowed: {allowed}."
    )
    expect(page.get_by_label("Maximum attempts")).to_have_value("7")
    page.get_by_label("Lease, seconds").fill("60")
    page.get_by_label("Keep dead letters").uncheck()
    page.get_by_role("button", name="Save").click()
    told(page, f"Changed the settings of {queue}")
    settings = sick.client.queue(queue).settings
    assert (settings.lease_seconds, settings.max_attempts, settings.dlq_enabled) == (60, 7, False)
    assert (settings.keep_history, settings.max_depth) == (7, None)


def test_an_error_in_a_nested_setting_uses_its_label(sick: Site, visit: Visit, queue: str) -> None:
    page = visit(sick, f"/queues/{queue}/settings", "operator")
    page.get_by_label("Backoff, jitter").fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("“Backoff, jitter” is '7")
    expect(page.get_by_role("alert")).not_to_contain_text("backoff.jitter")
    page.get_by_label("Backoff, jitter").fill("nan")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_text("“Backoff, jitter” is 'nan'. Allowed: a number.")


def test_an_error_of_a_form_says_what_is_empty_and_what_is_allowed(sick: Site) -> None:
    with sick.http("admin") as http:
        for path, form, expected in (
            (
                "/schedules/create",
                {"name": "", "queue": "emails", "cron": "@daily"},
                "“Name” is empty.</b> Allowed: 1 to 128 lowercase letters, digits, -, _ and .<",
            ),
            (
                "/schedules/create",
                {"name": "x", "queue": "nope", "cron": "@daily"},
                "“Queue” is &#39;nope&#39;.</b> Allowed: a queue that exists.<",
            ),
            (
                "/messages/bulk",
                {"act": "set_priority", "state": "ready", "priority": ""},
                "“Priority” is empty.</b> Allowed: -9 to 9.<",
            ),
            (
                "/keys/create",
                {"name": "shop", "scopes": ""},
                "“Scopes” is empty.</b> Allowed: one or more scopes.<",
            ),
        ):
            token = csrf(http, "/queues/create")
            answer = http.post(path, data={"csrf": token, **form})
            assert answer.status_code == 422
            assert expected in answer.text


def test_purge_promises_a_replay_only_where_history_is_kept(
    sick: Site, visit: Visit, queue: str
) -> None:
    page = visit(sick, f"/queues/{queue}/purge", "operator")
    expect(page.get_by_text("can be replayed from history for 7 days")).to_be_visible()
    sick.client.set_queue(queue, keep_history=0)
    for path in ("purge", "purge-dead"):
        page.goto(f"/queues/{queue}/{path}")
        expect(page.get_by_text("the queue keeps no history")).to_be_visible()
        expect(page.get_by_text("replayed")).to_have_count(0)


def test_a_redrive_into_a_nearly_full_queue_moves_what_fits(
    sick: Site, visit: Visit, queue: str
) -> None:
    kill(sick, queue, 6)
    sick.client.set_queue(queue, max_depth=6)
    page = visit(sick, f"/queues/{queue}/redrive", "operator")
    expect(page.locator(".facts")).to_contain_text("2 of 6")
    page.get_by_role("button", name="Redrive").click()
    told(page, f"Redrove 2 dead letters of {queue}")
    page.goto(f"/queues/{queue}/redrive")
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("alert")).to_contain_text("has no room for dead letters")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was redriven")
    assert sick.client.stats(queue).dead == 4


def test_a_queue_is_created_and_dropped(sick: Site, visit: Visit) -> None:
    page = visit(sick, "/queues", "operator")
    page.get_by_role("link", name="Create a queue").click()
    confirm(page, "Create", Name="Not A Name")
    expect(page.get_by_role("alert")).to_contain_text("Not A Name")
    page.get_by_label("Name").fill("brief")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status").filter(has_text="Created queue brief")).to_be_visible()
    sick.client.enqueue("brief", 1)
    open_menu(page)
    page.get_by_role("link", name="Drop").click()
    confirm(page, "Drop the queue", "1", Type_the_name="shorter")
    expect(page.get_by_role("alert")).to_contain_text("Allowed: brief")
    page.get_by_label("Type the name").fill("brief")
    page.get_by_role("button", name="Drop the queue").click()
    told(page, "Dropped queue brief")
    assert "brief" not in {queue.name for queue in sick.client.queues()}


def test_a_schedule_through_its_life(sick: Site, visit: Visit, queue: str) -> None:
    name, client = f"s-{queue}"[:60], sick.client
    page = visit(sick, "/schedules", "operator")
    page.get_by_role("link", name="Create a schedule").click()
    confirm(page, "Create", Name=name, Queue=queue, Rule="every day", Payload='{"all": 1}')
    expect(page.get_by_role("alert")).to_contain_text("every day")
    page.get_by_label("Rule").fill("0 4 * * *")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status").filter(has_text=f"Created schedule {name}")).to_be_visible()
    row = page.get_by_role("row", name=re.compile(f"^{name}"))
    row.get_by_role("link", name="Fire now").click()
    confirm(page, "Fire")
    expect(page.get_by_role("status").filter(has_text=f"Fired schedule {name}")).to_be_visible()
    assert client.stats(queue).ready == 11
    row.get_by_role("link", name="Pause").click()
    confirm(page, "Pause")
    expect(row).to_contain_text("paused")
    row.get_by_role("link", name="Resume").click()
    confirm(page, "Resume")
    expect(row.get_by_role("link", name="Pause")).to_be_visible()
    row.get_by_role("link", name="Edit").click()
    confirm(page, "Save", Rule="@hourly", Payload='{"some": 2}')
    expect(row).to_contain_text("@hourly")
    assert client.schedule(name).payload == {"some": 2}
    open_menu(row)
    row.get_by_role("link", name="Drop").click()
    confirm(page, "Drop")
    told(page, f"Dropped schedule {name}")


def test_the_reapers_are_run(sick: Site, visit: Visit, queue: str) -> None:
    sick.client.enqueue(queue, "brief", ttl=1)
    sick.client.enqueue(queue, "later", ttl=1, delay=3600)
    wait_for(lambda: sick.client.run(overdue()) == 2, "two messages to be over their time")
    page = visit(sick, "/system", "operator")
    page.get_by_role("link", name="Run the expiry reaper").click()
    confirm(page, "Run it", "2")
    told(page, "Ran the expiry reaper: 2 expired")
    page.goto("/system")
    open_menu(page)
    page.get_by_role("link", name="Run the delete reaper").click()
    confirm(page, "Run it")
    told(page, "Ran the delete reaper: 2 deleted")
    page.goto("/system")
    page.get_by_role("link", name="Run a maintenance pass").click()
    confirm(page, "Run it")
    told(page, "Ran a maintenance pass")


def test_what_is_gone_meanwhile_is_said_and_nothing_is_done(
    sick: Site, visit: Visit, queue: str
) -> None:
    (lease,) = sick.client.claim(queue, 1, lease_seconds=600)
    page = visit(sick, f"/messages/{lease.id}", "operator")
    open_menu(page)
    page.get_by_role("link", name="Cancel").click()
    dialog: Any = page.get_by_role("dialog")
    expect(dialog).to_contain_text("will lose it")
    sick.client.ack(lease)
    dialog.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_text("is done").first).to_be_visible()
    expect(page.get_by_text("A message in this state cannot be cancelled.")).to_be_visible()


def secrets(site: Site, name: str) -> list[str]:
    """What the API shows of a subscription's signing secrets, the newest first."""
    headers = {"Authorization": f"Bearer {site.keys['operator']}"}
    answer = httpx.get(f"{site.url}/api/subscriptions/{name}/secret", headers=headers)
    found: list[str] = answer.raise_for_status().json()["secrets"]
    return found


def test_a_subscription_is_created_paused_resumed_changed_and_dropped(
    sick: Site, visit: Visit
) -> None:
    name = f"q{uuid4().hex[:10]}"
    sick.client.create_queue(name)
    page = visit(sick, "/subscriptions", "operator")
    page.get_by_role("link", name="Create a subscription").first.click()
    url = "https://example.com/hook"
    confirm(page, "Create", Name=name, Queue=name, URL=url, Requests_at_once="3")
    shown = page.locator("#signing-secret")
    expect(shown).to_have_text(re.compile("^whsec_.{40,}$"))
    first = shown.inner_text()
    assert secrets(sick, name) == [first]
    page.get_by_role("link", name="Subscriptions").last.click()
    row = page.locator("tbody tr").filter(has_text=name)
    expect(row).to_contain_text("https://example.com/hook")
    assert first not in page.content()
    row.get_by_role("link", name="Pause").click()
    confirm(page, "Pause")
    expect(row).to_contain_text("paused")
    row.get_by_role("link", name="Resume").click()
    confirm(page, "Resume")
    expect(row).not_to_contain_text("paused")
    open_menu(row)
    row.get_by_role("link", name="Change").click()
    expect(page.get_by_role("dialog").get_by_label("Requests at once")).to_have_value("3")
    confirm(page, "Change", URL="https://example.com/other", Timeout_in_seconds="20")
    expect(row).to_contain_text("https://example.com/other")
    found = sick.db.execute(
        "select concurrency, timeout_seconds, enabled from penstock.subscription where name = %s",
        [name],
    ).fetchone()
    assert found == (3, 20, True)
    open_menu(row)
    row.get_by_role("link", name="Replace the secret").click()
    confirm(page, "Replace")
    expect(shown).to_have_text(re.compile("^whsec_.{40,}$"))
    second = shown.inner_text()
    assert secrets(sick, name) == [second, first]
    page.get_by_role("link", name="Subscriptions").last.click()
    open_menu(row)
    row.get_by_role("link", name="Drop").click()
    confirm(page, "Drop")
    told(page, f"Dropped subscription {name}")
    page.goto("/subscriptions")
    expect(row).to_have_count(0)
