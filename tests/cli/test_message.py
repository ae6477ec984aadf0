"""`penstock message`: found, told, cancelled, brought back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def emails(ask: Run) -> None:
    ask("queue", "create", "emails")


def dead(ask: Run, payload: str, error: str) -> int:
    """A dead letter, dead of this error."""
    message_id = int(ask("enqueue", "emails", payload)["id"])
    (lease,) = ask("claim", "emails")["leases"]
    ask("reject", lease["id"], lease["token"], error)
    return message_id


def done(ask: Run, payload: str) -> int:
    message_id = int(ask("enqueue", "emails", payload)["id"])
    (lease,) = ask("claim", "emails")["leases"]
    ask("ack", lease["id"], lease["token"])
    return message_id


def listed(ask: Run, *argv: object) -> list[int]:
    return [message["id"] for message in ask("message", "list", *argv)["messages"]]


def test_show_tells_the_story(cli: Run, ask: Run) -> None:
    message_id = ask("enqueue", "emails", '{"n": 1}', "--key", "k")["id"]
    (lease,) = ask("claim", "emails", "--worker", "w1")["leases"]
    ask("nack", message_id, lease["token"], "--error", "no route", "--delay", "0")
    story = cli("message", "show", message_id).out
    for fact in (f"id                {message_id}", '{"n": 1}', "no route", "w1", "ready"):
        assert fact in story
    assert ask("message", "show", message_id)["key"] == "k"


def test_show_reads_history_too(ask: Run) -> None:
    message_id = done(ask, '{"n": 1}')
    found = ask("message", "show", message_id)
    assert (found["state"], found["payload"]) == ("done", {"n": 1})
    assert found["finished_at"] is not None


def test_list_filters(ask: Run) -> None:
    ask("queue", "create", "other")
    keyed = ask("enqueue", "emails", "1", "--key", "k", "--delay", "1h")["id"]
    elsewhere = ask("enqueue", "other", "2")["id"]
    broken = dead(ask, "3", "timeout after 3 s")
    finished = done(ask, "4")
    assert listed(ask) == [keyed, elsewhere, broken]
    assert listed(ask, "--queue", "other") == [elsewhere]
    assert listed(ask, "--state", "dead") == [broken]
    assert listed(ask, "--state", "done") == [finished]
    assert listed(ask, "--key", "k") == [keyed]
    assert listed(ask, "--error-like", "timeout%") == [broken]
    assert listed(ask, "--limit", 2) == [keyed, elsewhere]
    assert listed(ask, "--limit", 2, "--after", elsewhere) == [broken]


def test_a_list_for_a_person(cli: Run, ask: Run) -> None:
    assert cli("message", "list").out == "no messages\n"
    message_id = ask("enqueue", "emails", '{"n": 1}')["id"]
    header, row = cli("message", "list").out.splitlines()
    assert header.split()[:3] == ["ID", "QUEUE", "STATE"]
    assert row.split()[:3] == [str(message_id), "emails", "ready"]


def test_cancel_takes_it_out(ask: Run) -> None:
    message_id = ask("enqueue", "emails", "1")["id"]
    assert ask("message", "cancel", message_id) == {
        "id": message_id,
        "state": "cancelled",
        "was": "ready",
    }
    assert ask("claim", "emails")["leases"] == []


def test_redrive_narrows_down(ask: Run) -> None:
    first, second, third = (dead(ask, "1", text) for text in ("timeout", "refused", "timeout"))
    dry = ask("message", "redrive", "emails", "--error-like", "time%", "--dry-run")
    assert dry == {"queue": "emails", "count": 2, "dry_run": True}
    assert ask("message", "redrive", "emails", "--id", second)["count"] == 1
    assert ask("message", "redrive", "emails", "--id-from", third, "--id-to", third)["count"] == 1
    assert ask("message", "redrive", "emails", "--older-than", "1h")["count"] == 0
    assert ask("message", "redrive", "emails", "--max-count", 5, "--per-second", 100)["count"] == 1
    assert listed(ask, "--state", "dead") == []
    assert listed(ask) == [first, second, third]


def test_redrive_of_everything_asks(cli: Run, ask: Run) -> None:
    message_id = dead(ask, "1", "timeout")
    refused = cli("message", "redrive", "emails")
    assert refused.code == 2
    assert "Redrive all 1 dead letters of queue emails?" in refused.err
    assert listed(ask, "--state", "dead") == [message_id]
    assert ask("message", "redrive", "emails", "--yes")["count"] == 1
    assert listed(ask, "--state", "dead") == []


def test_redrive_of_everything_may_be_counted_without_asking(ask: Run) -> None:
    dead(ask, "1", "timeout")
    assert ask("message", "redrive", "emails", "--dry-run")["count"] == 1


def test_replay_makes_a_copy(ask: Run) -> None:
    ask("queue", "create", "other")
    message_id = done(ask, '{"n": 1}')
    copy = ask("message", "replay", message_id)
    assert copy["copy_of"] == message_id
    assert ask("message", "show", copy["id"])["payload"] == {"n": 1}
    elsewhere = ask("message", "replay", message_id, "--queue", "other")["id"]
    assert ask("message", "show", elsewhere)["queue"] == "other"


BAD_INPUT = [
    (["show"], 2, "ID"),
    (["show", "x"], 2, "not a valid integer"),
    (["show", "999"], 3, "999"),
    (["list", "--state", "running"], 2, "'scheduled'"),
    (["list", "--limit", "0"], 2, "10000"),
    (["list", "--limit", "many"], 2, "--limit"),
    (["list", "--after", "x"], 2, "--after"),
    (["cancel", "999"], 3, "999"),
    (["cancel", "x"], 2, "not a valid integer"),
    (["redrive"], 2, "QUEUE"),
    (["redrive", "nowhere", "--yes"], 3, "nowhere"),
    (["redrive", "emails", "--older-than", "ages"], 2, "not a duration"),
    (["redrive", "emails", "--max-count", "-1"], 2, "max_count"),
    (["redrive", "emails", "--per-second", "0"], 2, "per_second"),
    (["redrive", "emails", "--per-second", "nan"], 2, "per_second"),
    (["replay", "999"], 3, "999"),
    (["replay", "x"], 2, "not a valid integer"),
]


@pytest.mark.parametrize(("argv", "code", "says"), BAD_INPUT)
def test_bad_input_is_one_line_and_changes_nothing(
    cli: Run, ask: Run, argv: list[str], code: int, says: str
) -> None:
    dead(ask, "1", "timeout")
    before = ask("message", "list")
    answer = cli("message", *argv)
    assert answer.code == code, answer
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert says in answer.err
    assert ask("message", "list") == before
