"""`penstock key`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.server.auth.api_keys import key_id


def test_a_key_is_made_listed_and_revoked(ask: Callable[..., Any], cli: Callable[..., Any]) -> None:
    made = ask("key", "create", "web", "--scope", "enqueue:orders-*", "--scope", "read")
    assert key_id(made["key"]) == made["id"]
    [listed] = ask("key", "list")["keys"]
    assert (listed["name"], listed["scopes"]) == ("web", ["enqueue:orders-*", "read"])
    assert made["key"] not in str(listed)
    assert ask("key", "revoke", "web", "--yes") == {"name": "web", "revoked": True}
    assert ask("key", "list")["keys"] == []
    assert [key["live"] for key in ask("key", "list", "--all")["keys"]] == [False]


def test_a_key_is_shown_on_a_line_of_its_own(cli: Callable[..., Any]) -> None:
    answer = cli("key", "create", "web", "--scope", "read", "--expires-in", "30d")
    assert (answer.code, key_id(answer.out.strip()) is None) == (0, False)
    assert "web" in cli("key", "list").out


def test_bad_input_is_refused(cli: Callable[..., Any]) -> None:
    assert cli("key", "create", "web", "--scope", "write").code == 2
    assert cli("key", "create", "two words", "--scope", "read").code == 2
    assert cli("key", "create", "web", "--scope", "read", "--expires-in", "soon").code == 2
    assert cli("key", "revoke", "nobody", "--yes").code == 3
    assert cli("key", "create", "web", "--scope", "read").code == 0
    assert cli("key", "create", "web", "--scope", "read").code == 4


def test_acts_are_recorded(cli: Callable[..., Any], connect: Callable[..., Any]) -> None:
    cli("key", "create", "web", "--scope", "read")
    cli("key", "revoke", "web", "--yes")
    rows = connect().execute("select act, target from penstock.activity order by id").fetchall()
    assert rows == [("create key", "web"), ("revoke key", "web")]


def test_a_key_is_changed(ask: Callable[..., Any], cli: Callable[..., Any], connect: Any) -> None:
    made = ask("key", "create", "web", "--scope", "read", "--expires-in", "1h")
    changed = ask("key", "set", "web", "--scope", "read", "--scope", "enqueue:orders-*")
    assert (changed["id"], changed["scopes"]) == (made["id"], ["read", "enqueue:orders-*"])
    assert changed["expires_at"] == made["expires_at"]
    assert ask("key", "set", made["id"], "--never-expires")["expires_at"] is None
    later = ask("key", "set", "web", "--expires-in", "30d")
    assert later["expires_at"] > made["expires_at"]
    assert later["scopes"] == changed["scopes"]
    assert cli("key", "set", "web").code == 2
    assert cli("key", "set", "web", "--scope", "write").code == 2
    assert cli("key", "set", "web", "--never-expires", "--expires-in", "1d").code == 2
    assert cli("key", "set", "nobody", "--scope", "read").code == 3
    query = "select act, details -> 'scopes' from penstock.activity order by id desc limit 1"
    assert connect().execute(query).fetchall() == [("set key", ["read", "enqueue:orders-*"])]
