"""`penstock migrate`: from nothing to a schema, with psql or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_from_nothing_to_up_to_date(cli: Run, ask: Run, empty_dsn: str) -> None:
    status = ask("migrate", "status", "--dsn", empty_dsn)
    assert status["current"] is None
    assert len(status["pending"]) >= 2
    assert "penstock migrate up" in cli("migrate", "status", "--dsn", empty_dsn).out
    done = ask("migrate", "up", "--dsn", empty_dsn)
    assert done["applied"] == status["pending"]
    assert done["current"] == status["target"]
    assert ask("migrate", "status", "--dsn", empty_dsn)["pending"] == []
    assert ask("migrate", "up", "--dsn", empty_dsn)["applied"] == []
    assert "nothing to apply" in cli("migrate", "up", "--dsn", empty_dsn).out


def test_the_script_needs_no_database(cli: Run, ask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://nobody@127.0.0.1:1/none")
    script = cli("migrate", "sql").out
    assert "penstock.enqueue" in script
    assert script == ask("migrate", "sql")["sql"]


def test_a_command_without_the_schema_says_what_to_do(cli: Run, empty_dsn: str) -> None:
    for argv in (["queue", "list"], ["enqueue", "emails", "1"], ["claim", "emails"]):
        answer = cli(*argv, "--dsn", empty_dsn)
        assert (answer.code, answer.out, answer.err.count("\n")) == (7, "", 1)
        assert "penstock migrate up" in answer.err


def test_a_schema_newer_than_the_client_is_left_alone(cli: Run, connect: Run) -> None:
    connect().execute(
        "insert into penstock.migration (version, name, checksum) values (9999, 'future', 'x')"
    )
    for argv in (["migrate", "up"], ["queue", "list"]):
        answer = cli(*argv)
        assert (answer.code, answer.out) == (7, "")
        assert "Upgrade" in answer.err


@pytest.mark.parametrize("argv", [["migrate", "down"], ["migrate", "up", "now"], ["migrate"]])
def test_bad_input_changes_nothing(cli: Run, ask: Run, argv: list[str], empty_dsn: str) -> None:
    assert cli(*argv).code == 2
    assert ask("migrate", "status", "--dsn", empty_dsn)["current"] is None


def test_other_peoples_interfaces_come_on_request(cli: Run, ask: Run, empty_dsn: str) -> None:
    done = ask("migrate", "up", "--with", "pgmq", "--dsn", empty_dsn)
    assert done["applied"][-1]["name"] == "contract pgmq"
    assert ask("migrate", "status", "--dsn", empty_dsn)["contracts"] == ["pgmq"]
    assert "with pgmq" in cli("migrate", "status", "--dsn", empty_dsn).out
    assert ask("migrate", "up", "--with", "pgmq", "--dsn", empty_dsn)["applied"] == []
    assert "pgmq.read(" in cli("migrate", "sql", "--with", "pgmq").out
    assert "pgmq.read(" not in cli("migrate", "sql").out
    answer = cli("migrate", "up", "--with", "sqs")
    assert (answer.code, answer.out) == (2, "")
    assert "pgmq" in answer.err
