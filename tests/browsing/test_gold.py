"""Gold of quarters of an hour is always the sum of gold of minutes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from penstock.commands.read import analytics

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
QUARTER = 900


def publish(db: psycopg.Connection[Any], queue: str, minutes: range, finished: int) -> None:
    """As the lake does; every third minute nothing was claimed, so that nothing has waited."""
    rows = [
        {
            "queue": queue,
            "minute": (NOON + timedelta(minutes=n)).isoformat(),
            "finished": finished + n,
            "done": finished,
            "dead": n,
            "expired": 1,
            "cancelled": 2,
            "superseded": 3,
            "retried": 0,
            "failed_attempts": n,
            "payload_bytes": 100 * n,
            "wait_seconds_p50": None if n % 3 == 0 else 0.5 * n,
            "wait_seconds_p95": 2.0 * n,
            "wait_seconds_p99": 3.0 * n,
            "work_seconds_p50": 0.1,
            "work_seconds_p95": 0.2,
            "work_seconds_p99": 0.3,
            "backlog_age_seconds": 60 - n,
        }
        for n in minutes
    ]
    db.execute("select penstock.publish_gold('queue_minute', %s::jsonb)", [json.dumps(rows)])


@pytest.mark.parametrize("queues", [None, ["emails"], ["emails", "nowhere"], []])
def test_quarters_are_what_their_minutes_add_up_to(
    run: Any, db: psycopg.Connection[Any], queues: list[str] | None
) -> None:
    # In pieces that end in the middle of a quarter; some of it is published again, changed.
    publish(db, "emails", range(20), 10)
    publish(db, "emails", range(20, 50), 10)
    publish(db, "orders", range(10, 40), 7)
    publish(db, "emails", range(17, 33), 25)
    hour = (NOON, NOON + timedelta(hours=1))
    by_minute = run(analytics.minutes(*hour, QUARTER, queues))
    quarters = run(analytics.quarters(*hour, queues))
    assert len(quarters) == (0 if queues == [] else 4)
    assert [each.of for each in quarters] == [each.of for each in by_minute]
    for one, other in zip(quarters, by_minute, strict=True):
        for name in analytics.GoldStep.__slots__[1:]:
            assert getattr(one, name) == pytest.approx(getattr(other, name)), name


def test_a_quarter_that_began_before_the_range_is_whole(
    run: Any, db: psycopg.Connection[Any]
) -> None:
    publish(db, "emails", range(30), 10)
    since = NOON + timedelta(minutes=20)
    found = run(analytics.quarters(since, NOON + timedelta(minutes=30), None))
    assert [(each.of, each.done) for each in found] == [(NOON + timedelta(minutes=15), 150)]
