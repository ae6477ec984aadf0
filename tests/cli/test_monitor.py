"""`penstock top` and `activity`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg


def test_top_shows_the_longest_queues_first(
    cli: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    cli("queue", "create", "short")
    cli("queue", "create", "tall")
    for _ in range(2):
        cli("enqueue", "tall", "1")
    cli("enqueue", "short", "1")
    shown = ask("top", "--once")
    assert [(each["queue"], each["ready"]) for each in shown["queues"]] == [
        ("tall", 2),
        ("short", 1),
    ]
    text = cli("top").out.splitlines()  # no terminal: it ends
    assert text[0].startswith("QUEUE")
    assert text[1].split()[:2] == ["tall", "2"]


def test_activity_is_listed_by_actor_and_target(
    cli: Callable[..., Any], ask: Callable[..., Any], dsn: str
) -> None:
    assert "no actions are recorded" in cli("activity").out
    with psycopg.connect(dsn, autocommit=True) as db:
        for actor, target in (("ada", "orders"), ("bob", "orders"), ("ada", "mails")):
            db.execute("select penstock.record_activity(%s, 'pause', %s)", [actor, target])
    assert [a["target"] for a in ask("activity", "--actor", "ada")["activity"]] == [
        "mails",
        "orders",
    ]
    assert [a["actor"] for a in ask("activity", "--target", "orders")["activity"]] == ["bob", "ada"]
    assert len(ask("activity", "--limit", "1")["activity"]) == 1
