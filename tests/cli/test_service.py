"""`penstock service`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg.conninfo import make_conninfo


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
