"""`penstock top`, `workers` and `activity`."""

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


def test_workers_that_reported_are_listed(
    cli: Callable[..., Any], ask: Callable[..., Any], dsn: str
) -> None:
    cli("queue", "create", "q")
    assert "no worker has reported" in cli("workers").out
    beat = 'select penstock.beat(%s, \'running\', now(), \'{"hostname": "h1", "pid": 7}\')'
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(beat, ["w1"])
        db.execute(beat, ["w2"])
        db.execute(
            "update penstock.heartbeat set seen_at = now() - interval '5 min' where worker = 'w2'"
        )
    assert [(w["worker"], w["alive"]) for w in ask("workers")["workers"]] == [
        ("w1", True),
        ("w2", False),
    ]
    assert "silent" in cli("workers").out


def test_activity_is_listed_by_actor_and_target(
    cli: Callable[..., Any], ask: Callable[..., Any], dsn: str
) -> None:
    assert "no act is recorded" in cli("activity").out
    with psycopg.connect(dsn, autocommit=True) as db:
        for actor, target in (("ada", "orders"), ("bob", "orders"), ("ada", "mails")):
            db.execute("select penstock.record_activity(%s, 'pause', %s)", [actor, target])
    assert [a["target"] for a in ask("activity", "--actor", "ada")["activity"]] == [
        "mails",
        "orders",
    ]
    assert [a["actor"] for a in ask("activity", "--target", "orders")["activity"]] == ["bob", "ada"]
    assert len(ask("activity", "--limit", "1")["activity"]) == 1
