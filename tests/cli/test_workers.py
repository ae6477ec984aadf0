"""`penstock workers`: the list, and commands to a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

REPORT = {
    "hostname": "h1",
    "pid": 7,
    "version": "9.9",
    "takes_commands": True,
    "queues": {
        "mails": {
            "running": 2,
            "concurrency": 4,
            "done_per_minute": 12.5,
            "failed_per_minute": 1,
            "p50_seconds": 0.25,
            "p95_seconds": 3,
            "runs": [{"id": "41", "attempt": 2, "seconds": 90.5}],
        }
    },
}


@pytest.fixture
def db(cli: Callable[..., Any], dsn: str) -> Any:
    cli("queue", "create", "mails")
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made


def report(db: psycopg.Connection[Any], worker: str, **changes: Any) -> str | None:
    """A worker reports; the command that it gets."""
    row = db.execute(
        "select penstock.beat_v2(%s, 'running', '2026-01-01', %s)",
        [worker, Jsonb({**REPORT, **changes})],
    ).fetchone()
    assert row is not None
    return row[0]


def test_workers_that_reported_are_listed(
    cli: Callable[..., Any], ask: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    assert "no worker has reported" in cli("workers").out
    beat = 'select penstock.beat(%s, \'running\', now(), \'{"hostname": "h1", "pid": 7}\')'
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


def test_the_figures_of_a_worker_are_shown_for_each_queue(
    cli: Callable[..., Any], ask: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    report(db, "w1")
    line = cli("workers").out.splitlines()[1]
    for word in ("mails", "12.5", "250 ms", "3 s", "41 for 90.5 s", "h1", "9.9"):
        assert word in line, line
    [worker] = ask("workers")["workers"]
    assert worker["queues"]["mails"]["runs"] == [{"id": "41", "attempt": 2, "seconds": 90.5}]


def test_a_command_reaches_the_worker_with_its_report_and_is_recorded(
    cli: Callable[..., Any], ask: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    assert report(db, "w1") is None
    assert ask("workers", "quiet", "w1") == {"worker": "w1", "command": "quiet"}
    assert report(db, "w1") == "quiet"
    cli("workers", "resume", "w1")
    assert report(db, "w1") is None
    cli("workers", "stop", "w1", "--yes")
    assert report(db, "w1") == "stop"
    acts = [(each["act"], each["target"]) for each in ask("activity")["activity"]]
    assert acts == [("stop worker", "w1"), ("resume worker", "w1"), ("quiet worker", "w1")]


def test_a_command_is_not_for_a_worker_that_is_started_later(
    cli: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    report(db, "w1")
    cli("workers", "stop", "w1", "--yes")
    later = "select penstock.beat_v2('w1', 'running', '2026-02-02', %s)"
    assert db.execute(later, [Jsonb(REPORT)]).fetchone() == (None,)


def test_a_worker_of_an_earlier_version_works_on_and_takes_no_commands(
    cli: Callable[..., Any], ask: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    beat = "select penstock.beat(%s, 'running', now(), '{\"version\": \"0.0.9\"}')"
    db.execute(beat, ["old"])
    refused = cli("workers", "quiet", "old")
    assert (refused.code, "runs version 0.0.9" in refused.err) == (4, True)
    db.execute(beat, ["old"])
    assert [each["state"] for each in ask("workers")["workers"]] == ["running"]


def test_a_worker_that_does_not_exist_is_an_error(
    cli: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    refused = cli("workers", "quiet", "unknown")
    assert (refused.code, "worker 'unknown' does not exist" in refused.err) == (3, True)


def test_a_report_with_values_of_wrong_types_breaks_no_list(
    ask: Callable[..., Any], db: psycopg.Connection[Any]
) -> None:
    runs = [1, {"id": "x"}, {"id": "7", "seconds": "long"}]
    wrong = {"mails": {"running": "many", "p50_seconds": -1, "runs": runs}, "other": 3}
    report(db, "w1", pid="seven", queues=wrong)
    report(db, "w2", pid=1e300, queues=[1])
    first, second = ask("workers")["workers"]
    assert (first["running"], first["pid"], list(first["queues"])) == (0, None, ["mails"])
    assert first["queues"]["mails"]["runs"] == [{"id": "7", "attempt": 1, "seconds": 0.0}]
    assert second["queues"] == {}
