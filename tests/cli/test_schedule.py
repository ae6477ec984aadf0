"""`penstock schedule`: made, changed, fired, held up, dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def nightly(ask: Run) -> None:
    ask("queue", "create", "emails")
    ask(
        "schedule",
        "create",
        "nightly",
        "emails",
        "0 3 * * *",
        'payload={"all": true}',
        "priority=5",
    )


def test_create_says_when_it_fires_first(ask: Run, cli: Run) -> None:
    ask("queue", "create", "emails")
    made = ask("schedule", "create", "nightly", "emails", "@daily", "time_zone=Europe/Paris")
    assert (made["schedule"], made["created"]) == ("nightly", True)
    found = ask("schedule", "show", "nightly")
    assert (found["cron"], found["time_zone"]) == ("@daily", "Europe/Paris")
    assert found["next_fire_at"] == made["next_fire_at"]
    again = ask("schedule", "create", "nightly", "emails", "@hourly", "--exist-ok")
    assert again["created"] is False
    assert "fires next at" in cli("schedule", "create", "other", "emails", "@daily").out


@pytest.mark.usefixtures("nightly")
def test_set_changes_what_is_named(ask: Run) -> None:
    changed = ask("schedule", "set", "nightly", "cron=0 4 * * *", "priority=default", "missed=all")
    assert (changed["cron"], changed["priority"], changed["missed"]) == ("0 4 * * *", 0, "all")
    assert changed["payload"] == {"all": True}


@pytest.mark.usefixtures("nightly")
def test_pause_and_resume(ask: Run) -> None:
    assert ask("schedule", "pause", "nightly") == {"schedule": "nightly", "paused": True}
    assert ask("schedule", "show", "nightly")["next_fire_at"] is None
    assert ask("schedule", "resume", "nightly") == {"schedule": "nightly", "paused": False}
    assert ask("schedule", "show", "nightly")["next_fire_at"] is not None


@pytest.mark.usefixtures("nightly")
def test_fire_enqueues_now_by_name_or_what_is_due(ask: Run) -> None:
    fired = ask("schedule", "fire", "nightly")
    [lease] = ask("claim", "emails")["leases"]
    assert (lease["id"], lease["payload"], lease["priority"]) == (fired["id"], {"all": True}, 5)
    assert ask("schedule", "fire")["count"] == 0


@pytest.mark.usefixtures("nightly")
def test_list_shows_each_schedule_on_a_line(ask: Run, cli: Run) -> None:
    assert [each["name"] for each in ask("schedule", "list")["schedules"]] == ["nightly"]
    header, row = cli("schedule", "list").out.splitlines()
    assert header.split()[:4] == ["NAME", "QUEUE", "CRON", "TIME_ZONE"]
    assert row.startswith("nightly  emails  0 3 * * *")
    ask("schedule", "drop", "nightly", "--yes")
    assert "no schedules yet" in cli("schedule", "list").out


@pytest.mark.usefixtures("nightly")
def test_drop_asks_first(ask: Run, cli: Run) -> None:
    assert cli("schedule", "drop", "nightly").code == 2
    assert ask("schedule", "drop", "nightly", "--yes") == {"schedule": "nightly", "dropped": True}
    gone = cli("--json", "schedule", "show", "nightly")
    assert (gone.code, gone.error["sqlstate"]) == (3, "PS013")


def test_next_shows_what_a_rule_means(ask: Run, cli: Run) -> None:
    line = ["schedule", "next", "0 9 1 1 *", "--time-zone", "Asia/Tokyo", "-n", "2"]
    times = ask(*line, "--after", "2026-01-01T12:00:00+00:00")["next_fires"]
    assert times == ["2027-01-01T00:00:00+00:00", "2028-01-01T00:00:00+00:00"]
    assert len(cli(*line).out.splitlines()) == 2
    assert cli("schedule", "next", "0 0 30 2 *").out == "it never fires\n"


@pytest.mark.parametrize(
    "line",
    [
        ["schedule", "create", "a", "emails", "60 * * * *"],
        ["schedule", "create", "a", "emails", "@daily", "time_zone=Mars/Olympus"],
        ["schedule", "create", "a", "emails", "@daily", "prority=1"],
        ["schedule", "create", "A b", "emails", "@daily"],
        ["schedule", "set", "nightly", "missed=never"],
        ["schedule", "next", "@daily", "-n", "0"],
    ],
)
@pytest.mark.usefixtures("nightly")
def test_bad_input_is_one_line_and_code_2(cli: Run, line: list[str]) -> None:
    answer = cli(*line)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1


def test_sync_brings_the_schedules_of_an_app(
    ask: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("queue", "create", "emails")
    (tmp_path / "synced.py").write_text(
        "from penstock import App\n"
        "app, empty = App(), App()\n"
        "@app.schedule(every=30)\n"
        "@app.task(queue='emails')\n"
        "def refresh() -> None: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert ask("schedule", "sync", "synced:app") == {"changed": ["refresh"], "dropped": []}
    assert ask("schedule", "show", "refresh")["cron"] == "@every 30s"
    assert ask("schedule", "sync", "synced:app") == {"changed": [], "dropped": []}
    dropped = ask("schedule", "sync", "synced:empty", "--drop-others")
    assert dropped == {"changed": [], "dropped": ["refresh"]}
