"""`penstock batch`: listed, shown, cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

Run = Callable[..., Any]
Connect = Callable[..., psycopg.Connection[Any]]


def test_batches_are_listed_shown_and_cancelled(ask: Run, cli: Run, connect: Connect) -> None:
    ask("queue", "create", "emails")
    assert "no batches" in cli("batch", "list").out
    db = connect()
    db.execute("select penstock.create_batch('import')")
    db.execute("select penstock.add_to_batch(1, 'emails', array['1'::jsonb, '2'])")
    [found] = ask("batch", "list")["batches"]
    assert (found["name"], found["state"], found["pending"]) == ("import", "open", 2)
    assert ask("batch", "show", "1")["total"] == 2
    assert ask("batch", "cancel", "1", "--yes") == {"batch": 1, "cancelled": 2}
    assert ask("batch", "show", "1")["state"] == "finished"
    assert cli("batch", "show", "7").code == 3
