"""`penstock claim` and what its tokens are good for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

Run = Callable[..., Any]
VERBS = ["ack", "nack", "extend", "snooze", "reject"]


@pytest.fixture
def lease(ask: Run) -> dict[str, Any]:
    """A message of queue `emails`, claimed."""
    ask("queue", "create", "emails", "max_attempts=2")
    ask("enqueue", "emails", '{"n": 1}')
    (found,) = ask("claim", "emails", "--worker", "w1")["leases"]
    return dict(found)


def state(ask: Run, lease: dict[str, Any]) -> str:
    return str(ask("message", "show", lease["id"])["state"])


def test_claim_shows_message_and_lease(lease: dict[str, Any]) -> None:
    assert (lease["queue"], lease["payload"], lease["attempt"]) == ("emails", {"n": 1}, 1)
    assert isinstance(lease["token"], int)
    until = datetime.fromisoformat(lease["lease_until"])
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=31)


def test_claim_takes_as_many_as_asked_for(ask: Run) -> None:
    ask("queue", "create", "emails")
    ask("enqueue", "emails", "--file", "-", stdin=b"1\n2\n3\n")
    assert len(ask("claim", "emails", "-n", "2", "--lease-seconds", "600")["leases"]) == 2
    assert len(ask("claim", "emails", "--count", "2")["leases"]) == 1
    assert ask("claim", "emails") == {"leases": []}


def test_claim_for_a_person(cli: Run, ask: Run) -> None:
    ask("queue", "create", "emails")
    assert cli("claim", "emails").out == "nothing is ready in emails\n"
    ask("enqueue", "emails", '{"n": 1}', "--key", "k")
    header, row = cli("claim", "emails").out.splitlines()
    assert header.split()[:3] == ["ID", "TOKEN", "ATTEMPT"]
    assert row.endswith('{"n": 1}')


def test_ack_makes_it_done(ask: Run, lease: dict[str, Any]) -> None:
    done = ask("ack", lease["id"], lease["token"])
    assert done == {"id": lease["id"], "state": "done"}
    assert state(ask, lease) == "done"


def test_nack_gives_it_back_with_its_error(ask: Run, lease: dict[str, Any]) -> None:
    back = ask("nack", lease["id"], lease["token"], "--error", "no route", "--delay", "1h")
    assert back == {"id": lease["id"], "state": "scheduled"}
    message = ask("message", "show", lease["id"])
    assert message["last_error"] == "no route"
    (attempt,) = message["attempts"]
    assert (attempt["worker"], attempt["error"]) == ("w1", "no route")


def test_extend_counts_from_now(ask: Run, lease: dict[str, Any]) -> None:
    longer = ask("extend", lease["id"], lease["token"], 3600)
    until = datetime.fromisoformat(longer["lease_until"])
    assert until > datetime.now(UTC) + timedelta(seconds=3500)
    again = ask("extend", lease["id"], lease["token"])
    assert datetime.fromisoformat(again["lease_until"]) < until


def test_snooze_does_not_burn_the_attempt(ask: Run, lease: dict[str, Any]) -> None:
    assert ask("snooze", lease["id"], lease["token"])["state"] == "ready"
    (again,) = ask("claim", "emails")["leases"]
    assert (again["id"], again["attempt"]) == (lease["id"], 1)
    assert ask("snooze", again["id"], again["token"], "1h")["state"] == "scheduled"


def test_reject_sends_it_to_the_dead_letters(ask: Run, lease: dict[str, Any]) -> None:
    assert ask("reject", lease["id"], lease["token"], "no such address")["state"] == "dead"
    assert ask("message", "show", lease["id"])["last_error"] == "no such address"


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_token_changes_nothing(
    cli: Run, ask: Run, lease: dict[str, Any], verb: str
) -> None:
    answer = cli("--json", verb, lease["id"], lease["token"] + 1)
    assert answer.code == 4
    assert (answer.error["type"], answer.error["sqlstate"]) == ("LeaseLostError", "PS007")
    assert answer.error["fields"]["id"] == lease["id"]
    assert state(ask, lease) == "leased"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("argv", [[], ["1"], ["1", "x"], ["x", "1"], ["9" * 30, "1"]])
def test_ids_and_tokens_are_whole_numbers(cli: Run, verb: str, argv: list[str]) -> None:
    answer = cli(verb, *argv)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["claim", "nowhere"], 3, "nowhere"),
        (["claim", "emails", "-n", "0"], 2, "count"),
        (["claim", "emails", "-n", "10001"], 2, "10000"),
        (["claim", "emails", "-n", "x"], 2, "-n"),
        (["claim", "emails", "--lease-seconds", "0"], 2, "lease_seconds"),
        (["claim", "emails", "--lease-seconds", "43201"], 2, "43200"),
        (["nack", "ID", "TOKEN", "--delay", "never"], 2, "not a duration"),
        (["extend", "ID", "TOKEN", "0"], 2, "seconds"),
        (["extend", "ID", "TOKEN", "43201"], 2, "43200"),
        (["snooze", "ID", "TOKEN", "a while"], 2, "not a duration"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    cli: Run, ask: Run, lease: dict[str, Any], argv: list[str], code: int, says: str
) -> None:
    ask("enqueue", "emails", "2")
    stand_in = {"ID": lease["id"], "TOKEN": lease["token"]}
    answer = cli(*(stand_in.get(word, word) for word in argv))
    assert answer.code == code, answer
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert says in answer.err
    stats = ask("queue", "stats", "emails")["queues"][0]
    assert (stats["ready"], stats["leased"]) == (1, 1)
