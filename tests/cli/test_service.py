"""`penstock service`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from penstock.secrets import SecretBox, new_secret_key


def test_a_service_is_added_listed_and_removed(ask: Callable[..., Any], dsn: str) -> None:
    address = make_conninfo(dsn, password="hunter2")
    made = ask("service", "add", "other", address)
    listed = {each["name"]: each for each in ask("service", "list")["services"]}
    assert listed.keys() == {"local", "other"}
    assert listed["other"]["id"] == made["id"]
    assert "hunter2" not in str(listed)
    assert ask("service", "remove", "other", "--yes") == {"name": "other", "removed": True}
    assert [each["name"] for each in ask("service", "list")["services"]] == ["local"]


def test_bad_input_is_refused(cli: Callable[..., Any], dsn: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    assert cli("service", "add", "far", nowhere).code == 6
    assert cli("service", "add", "far", nowhere, "--no-check").code == 0
    assert cli("service", "add", "far", dsn).code == 4
    assert cli("service", "add", "Far", dsn).code == 2
    assert cli("service", "add", "x", "mysql://host/db").code == 2
    assert cli("service", "remove", "nobody", "--yes").code == 3
    assert cli("service", "remove", "local", "--yes").code == 2
    assert "far" in cli("service", "list").out


def stored(dsn: str) -> tuple[str, str | None]:
    """The address of the service far as it is in the database, and its password."""
    with psycopg.connect(dsn) as connection:
        query = "select dsn, secret, password_file from penstock.service where name = 'far'"
        [(address, secret, file)] = connection.execute(query).fetchall()
    return address, file if secret is None else SecretBox.from_environment().open(secret)


def test_credentials_come_from_the_environment_a_file_or_stdin(
    ask: Callable[..., Any], cli: Callable[..., Any], dsn: str, tmp_path: Path, monkeypatch: Any
) -> None:
    # The embedded PostgreSQL trusts its socket, so that any password passes the test.
    socket_dir = str(psycopg.conninfo.conninfo_to_dict(dsn)["host"])
    monkeypatch.setenv("PENSTOCK_SERVICE_PATHS", f"{socket_dir}:{tmp_path}")
    monkeypatch.setenv("FAR_DSN", make_conninfo(dsn, password="from-the-dsn"))
    monkeypatch.setenv("FAR_PASSWORD", "from-a-variable")
    (tmp_path / "far.txt").write_text("from-a-file\n")
    made = ask("service", "add", "far", "--dsn-env", "FAR_DSN")
    assert (made["status"]["is_standby"], stored(dsn)[1]) == (False, "from-the-dsn")
    for options, stdin, password in (
        (["--password-env", "FAR_PASSWORD"], b"", "from-a-variable"),
        (["--password-from", tmp_path / "far.txt"], b"", "from-a-file"),
        (["--password-stdin"], "gehei\u00df\n".encode(), "gehei\u00df"),
        (["--password-file", "far.txt"], b"", "far.txt"),
    ):
        ask("service", "set", "far", *options, stdin=stdin)
        address, found = stored(dsn)
        assert (found, "password" in address) == (password, False)
    assert cli("service", "set", "far").code == 2
    both = ["--password-stdin", "--password-env", "FAR_PASSWORD"]
    assert cli("service", "set", "far", *both, stdin=b"x\n").code == 2
    nowhere = cli("--json", "service", "set", "far", "host=127.0.0.1 port=1 user=ada")
    assert (nowhere.code, stored(dsn)[0]) == (6, address)
    assert "from-a-variable" not in cli("service", "show", "far").out


def test_the_state_of_a_service_is_shown(ask: Callable[..., Any]) -> None:
    [local] = ask("service", "list")["services"]
    assert local["reachable"] is True
    assert local == ask("service", "check", "local") | {"checked_at": local["checked_at"],
        "clock_difference_seconds": local["clock_difference_seconds"]}  # fmt: skip
    assert {"version", "schema_version", "roles"} <= local.keys()
    assert local["schema_version"] is not None


def test_a_key_can_be_replaced(ask: Callable[..., Any], dsn: str, monkeypatch: Any) -> None:
    old, new = new_secret_key(), new_secret_key()
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", old)
    ask("service", "add", "far", make_conninfo(dsn, password="hunter2"), "--no-check")
    ask("queue", "create", "orders")
    ask("push", "create", "hook", "orders", "https://example.com/hook")
    secrets = ask("push", "secret", "hook")
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", f"{new},{old}")
    assert ask("service", "rekey") == {"services": ["far"], "subscriptions": ["hook"]}
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", new)
    assert (stored(dsn)[1], ask("push", "secret", "hook")) == ("hunter2", secrets)


@pytest.mark.parametrize("verb", ["cancel-task", "retry-task"])
def test_a_task_that_does_not_exist_is_named(cli: Callable[..., Any], verb: str) -> None:
    for task in ("x", "6f5902ac-237c-4e5b-8d1c-0a6f1f0e8a11"):
        answer = cli("service", verb, "local", task)
        assert (answer.code, task in answer.err) == (3, True)
