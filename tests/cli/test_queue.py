"""`penstock queue`: made, changed, emptied, dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock import Client
from penstock.model.queue import QueueStats

Run = Callable[..., Any]


def names(ask: Run) -> list[str]:
    return [queue["name"] for queue in ask("queue", "list")["queues"]]


def settings(ask: Run, name: str) -> dict[str, Any]:
    (found,) = [queue for queue in ask("queue", "list")["queues"] if queue["name"] == name]
    return dict(found)


def filled(ask: Run) -> None:
    """Queue `emails` with two ready, one scheduled, one leased and one dead."""
    ask("queue", "create", "emails")
    ask("enqueue", "emails", "--file", "-", stdin=b"1\n2\n3\n4\n")
    ask("enqueue", "emails", "5", "--delay", "1h")
    leases = ask("claim", "emails", "-n", "2")["leases"]
    ask("reject", leases[0]["id"], leases[0]["token"], "bad")


def stats(ask: Run) -> tuple[int, ...]:
    (found,) = ask("queue", "stats", "emails")["queues"]
    return tuple(found[name] for name in ("ready", "scheduled", "leased", "dead"))


def test_create_takes_settings(ask: Run) -> None:
    done = ask("queue", "create", "emails", "max_attempts=3", 'backoff={"kind": "linear"}')
    assert done == {"queue": "emails", "created": True}
    found = settings(ask, "emails")
    assert (found["max_attempts"], found["lease_seconds"]) == (3, 30)
    assert found["backoff"]["kind"] == "linear"


def test_create_again_is_a_conflict_unless_it_is_welcome(cli: Run, ask: Run) -> None:
    ask("queue", "create", "emails", "max_attempts=3")
    again = cli("--json", "queue", "create", "emails")
    assert (again.code, again.error["sqlstate"]) == (4, "PS002")
    welcome = ask("queue", "create", "emails", "max_attempts=9", "--exist-ok")
    assert welcome == {"queue": "emails", "created": False}
    assert settings(ask, "emails")["max_attempts"] == 3


def test_set_changes_what_is_named_and_default_puts_it_back(ask: Run) -> None:
    ask("queue", "create", "emails", "lease_seconds=60")
    changed = ask("queue", "set", "emails", "max_attempts=9", "max_depth=10")
    assert (changed["lease_seconds"], changed["max_attempts"], changed["max_depth"]) == (60, 9, 10)
    back = ask("queue", "set", "emails", "max_attempts=default", "max_depth=none")
    assert (back["lease_seconds"], back["max_attempts"], back["max_depth"]) == (60, 5, None)


def test_pause_and_resume(ask: Run) -> None:
    ask("queue", "create", "emails")
    ask("enqueue", "emails", "1")
    assert ask("queue", "pause", "emails") == {"queue": "emails", "paused": True}
    assert ask("claim", "emails")["leases"] == []
    assert ask("queue", "resume", "emails") == {"queue": "emails", "paused": False}
    assert len(ask("claim", "emails")["leases"]) == 1


def test_stats_count_each_state(ask: Run, cli: Run) -> None:
    filled(ask)
    assert stats(ask) == (2, 1, 1, 1)
    ask("queue", "create", "other")
    assert [q["queue"] for q in ask("queue", "stats")["queues"]] == ["emails", "other"]
    header, row, _ = cli("queue", "stats").out.splitlines()
    assert header.split()[:5] == ["QUEUE", "READY", "SCHEDULED", "LEASED", "DEAD"]
    assert row.split()[:5] == ["emails", "2", "1", "1", "1"]


def test_purge_deletes_what_waits(ask: Run) -> None:
    filled(ask)
    assert ask("queue", "purge", "emails", "--yes") == {"queue": "emails", "purged": 3}
    assert stats(ask) == (0, 0, 1, 1)
    assert ask("queue", "purge", "emails", "--include-leased", "-y")["purged"] == 1
    assert ask("queue", "purge", "emails.dlq", "--yes")["purged"] == 1
    assert stats(ask) == (0, 0, 0, 0)


def test_drop_spares_a_queue_with_messages_unless_forced(cli: Run, ask: Run) -> None:
    filled(ask)
    spared = cli("--json", "queue", "drop", "emails", "--yes")
    assert (spared.code, spared.error["sqlstate"]) == (4, "PS011")
    assert stats(ask) == (2, 1, 1, 1)
    assert ask("queue", "drop", "emails", "--force", "--yes")["discarded"] == 5
    assert names(ask) == []


@pytest.mark.parametrize("verb", [["purge"], ["drop", "--force"]])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_nobody_to_ask_means_no(cli: Run, ask: Run, verb: list[str], flags: list[str]) -> None:
    filled(ask)
    answer = cli("queue", *verb, "emails", *flags)
    assert (answer.code, answer.out) == (2, "")
    assert "Add --yes" in answer.err
    assert stats(ask) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("reply", "code", "left"),
    [(b"y\n", 1, 2), (b"\n", 1, 2), (b"email\n", 1, 2), (b"emails\n", 0, 0)],
)
def test_a_person_types_the_name_of_the_queue(
    cli: Run, ask: Run, monkeypatch: pytest.MonkeyPatch, reply: bytes, code: int, left: int
) -> None:
    filled(ask)
    monkeypatch.setattr("penstock.cli.session.is_answered_by_a_person", lambda: True)
    answer = cli("queue", "purge", "emails", stdin=reply)
    assert answer.code == code
    assert "Delete 3 messages of queue emails? Type the name of the queue" in answer.err
    assert stats(ask)[0] == left
    assert cli("queue", "drop", "emails", "--force", stdin=reply).code == code
    assert names(ask) == (["emails"] if left else [])


def test_a_question_marks_an_estimate(cli: Run, ask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(ask)
    exact = Client.stats

    def estimated(client: Client, name: str) -> QueueStats:
        return replace(exact(client, name), estimated=True)

    monkeypatch.setattr(Client, "stats", estimated)
    monkeypatch.setattr("penstock.cli.session.is_answered_by_a_person", lambda: True)
    asked = cli("queue", "purge", "emails", stdin=b"\n").err
    assert "Delete about 3 messages of queue emails?" in asked


def test_a_list_for_a_person(cli: Run, ask: Run) -> None:
    assert "penstock queue create" in cli("queue", "list").out
    ask("queue", "create", "emails")
    header, row = cli("queue", "list").out.splitlines()
    assert header.startswith("NAME")
    assert row.startswith("emails")


BAD_INPUT = [
    (["create"], 2, "NAME"),
    (["create", "Emails!"], 2, "name"),
    (["create", "emails.dlq"], 2, "dlq"),
    (["create", "emails", "max_attemps=3"], 2, "did you mean 'max_attempts'"),
    (["create", "emails", "max_attempts"], 2, "key=value"),
    (["create", "emails", "max_attempts=0"], 2, "1 to 100"),
    (["create", "emails", "max_attempts=many"], 2, "1 to 100"),
    (["create", "emails", "max_attempts="], 2, "1 to 100"),
    (["create", "emails", "backoff=linear"], 2, "backoff"),
    (["create", "emails", 'backoff={"kind": "wild"}'], 2, "linear"),
    (["create", "emails", "paused=perhaps"], 2, "true or false"),
    (["create", "emails", "--exist"], 2, "--exist-ok"),
    (["set", "present"], 2, "KEY=VALUE"),
    (["set", "present", "lease_seconds=43201"], 2, "43200"),
    (["set", "nowhere", "max_attempts=3"], 3, "nowhere"),
    (["pause", "nowhere"], 3, "nowhere"),
    (["resume", "nowhere"], 3, "nowhere"),
    (["purge", "nowhere", "--yes"], 3, "nowhere"),
    (["drop", "nowhere", "--yes"], 3, "nowhere"),
    (["stats", "nowhere"], 3, "nowhere"),
    (["lst"], 2, "did you mean"),
]


@pytest.mark.parametrize(("argv", "code", "says"), BAD_INPUT)
def test_bad_input_is_one_line_and_changes_nothing(
    cli: Run, ask: Run, argv: list[str], code: int, says: str
) -> None:
    ask("queue", "create", "present")
    before = ask("queue", "list")
    answer = cli("queue", *argv)
    assert answer.code == code, answer
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert says.lower() in answer.err.lower()
    assert ask("queue", "list") == before


def test_ctrl_c_at_the_question_is_quiet(
    cli: Run, ask: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    filled(ask)
    monkeypatch.setattr("penstock.cli.session.is_answered_by_a_person", lambda: True)
    monkeypatch.setattr("click.prompt", interrupt)
    answer = cli("queue", "purge", "emails")
    assert (answer.code, answer.out, answer.err.strip()) == (130, "", "")
    assert stats(ask)[0] == 2
