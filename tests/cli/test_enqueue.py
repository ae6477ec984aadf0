"""`penstock enqueue`: the messages that it accepts, and those that it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def emails(ask: Run) -> None:
    ask("queue", "create", "emails")


def claimed(ask: Run) -> dict[str, Any]:
    (lease,) = ask("claim", "emails")["leases"]
    found: dict[str, Any] = lease
    return found


@pytest.mark.parametrize("payload", ['{"to": "a@b.c"}', "null", "5", '"text"', "[]", '"ü💧"'])
def test_a_payload_is_any_json(ask: Run, payload: str) -> None:
    message_id = ask("enqueue", "emails", payload)["id"]
    lease = claimed(ask)
    assert (lease["id"], lease["payload"]) == (message_id, json.loads(payload))


def test_a_payload_that_begins_with_a_dash_stands_behind_two(ask: Run) -> None:
    ask("enqueue", "emails", "--", "-5")
    assert claimed(ask)["payload"] == -5


@pytest.mark.parametrize("argument", [[], ["-"]])
def test_a_payload_may_come_from_stdin(ask: Run, argument: list[str]) -> None:
    ask("enqueue", "emails", *argument, stdin=b'{"from": "stdin"}\n')
    assert claimed(ask)["payload"] == {"from": "stdin"}


def test_bytes_go_in_as_they_are(ask: Run) -> None:
    ask("enqueue", "emails", "--bytes", stdin=b"\x00\xff{")
    lease = claimed(ask)
    assert lease["payload_base64"] == "AP97"
    assert "payload" not in lease


def test_every_option_reaches_the_message(ask: Run) -> None:
    found = ask(
        *("enqueue", "emails", "{}", "--key", "k", "--priority", "3", "--group", "g"),
        *("--ttl", "1h", "--header", "tenant=a", "--header", "x=y=z", "--max-attempts", "2"),
        *("--visible-at", "2099-01-01T00:00:00+00:00", "--on-conflict", "error"),
        *("--unique", "unfinished"),
    )
    message = ask("message", "show", found["id"])
    assert message["state"] == "scheduled"
    assert message["visible_at"] == "2099-01-01T00:00:00+00:00"
    assert (message["key"], message["priority"], message["group"]) == ("k", 3, "g")
    assert message["headers"] == {"tenant": "a", "x": "y=z"}
    assert message["max_attempts"] == 2
    assert message["expires_at"] is not None


def test_a_delay_schedules_it(ask: Run) -> None:
    found = ask("enqueue", "emails", "{}", "--delay", "1h")
    assert ask("message", "show", found["id"])["state"] == "scheduled"


def test_a_key_that_waits_is_replaced_unless_told_otherwise(cli: Run, ask: Run) -> None:
    first = ask("enqueue", "emails", "1", "--key", "k")["id"]
    assert ask("enqueue", "emails", "2", "--key", "k")["id"] == first
    assert ask("enqueue", "emails", "3", "--key", "k", "--on-conflict", "skip")["id"] == first
    refused = cli("--json", "enqueue", "emails", "4", "--key", "k", "--on-conflict", "error")
    assert (refused.code, refused.error["sqlstate"]) == (4, "PS009")
    assert claimed(ask)["payload"] == 2


def test_a_file_goes_in_whole(ask: Run, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text("\n".join(json.dumps({"n": n}) for n in range(2500)) + "\n\n")
    done = ask("enqueue", "emails", "--file", file, "--priority", "2", "--header", "a=b")
    assert done["count"] == 2500
    assert done["last_id"] > done["first_id"]
    leases = ask("claim", "emails", "-n", "2500")["leases"]
    assert [lease["payload"]["n"] for lease in leases] == list(range(2500))
    assert {lease["priority"] for lease in leases} == {2}
    assert leases[0]["headers"] == {"a": "b"}


def test_a_file_may_be_stdin_and_may_hold_bytes(ask: Run) -> None:
    assert ask("enqueue", "emails", "--file", "-", stdin=b'1\r\n"2"\n')["count"] == 2
    assert ask("enqueue", "emails", "--bytes", "--file", "-", stdin=b"\xff\nx\n")["count"] == 2


def test_an_empty_file_enqueues_nothing(ask: Run) -> None:
    assert ask("enqueue", "emails", "--file", "-", stdin=b"\n") == {
        "queue": "emails",
        "count": 0,
        "first_id": None,
        "last_id": None,
    }


def test_a_bad_line_is_named_and_nothing_goes_in(
    cli: Run, count: Callable[[], int], tmp_path: Path
) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text("1\n" * 2000 + "oops\n")
    answer = cli("enqueue", "emails", "--file", file)
    assert answer.code == 2
    assert answer.err.startswith(f"error: line 2001 of {file} is not JSON")
    assert count() == 0


BAD_INPUT = [
    (["nowhere", "1"], 3, "nowhere"),
    (["emails.dlq", "1"], 2, "dlq"),
    (["emails", "hello"], 2, "not JSON"),
    (["emails", "NaN"], 2, "not JSON"),
    (["emails", '"\\u0000"'], 2, "NUL"),
    (["emails", '"\\ud800"'], 2, "surrogate"),
    (["emails", f'"{"x" * 300_000}"'], 2, "262144"),
    (["emails", "1", "--priority", "10"], 2, "priority"),
    (["emails", "1", "--priority", "high"], 2, "--priority"),
    (["emails", "1", "--delay", "soon"], 2, "not a duration"),
    (["emails", "1", "--visible-at", "noon"], 2, "not a time"),
    (["emails", "1", "--delay", "1", "--visible-at", "2099-01-01"], 2, "visible_at"),
    (["emails", "1", "--ttl", "0"], 2, "ttl"),
    (["emails", "1", "--header", "x"], 2, "not a header"),
    (["emails", "1", "--max-attempts", "0"], 2, "max_attempts"),
    (["emails", "1", "--max-attempts", "9999999999"], 2, "max_attempts"),
    (["emails", "1", "--on-conflict", "explode"], 2, "'replace', 'skip', 'error'"),
    (["emails", "1", "--unique", "ever"], 2, "'waiting', 'unfinished'"),
    (["emails", "1", "2"], 2, "unexpected extra argument"),
    (["emails", "1", "--file", "-"], 2, "not both"),
    (["emails", "--file", "-", "--key", "k"], 2, "--key is for one message"),
    (["emails", "--file", "no/such/file"], 2, "no/such/file"),
    ([], 2, "QUEUE"),
]


@pytest.mark.parametrize(("argv", "code", "says"), BAD_INPUT)
def test_bad_input_is_one_line_and_writes_nothing(
    cli: Run, count: Callable[[], int], argv: list[str], code: int, says: str
) -> None:
    answer = cli("enqueue", *argv)
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert says.lower() in answer.err.lower()
    assert count() == 0
