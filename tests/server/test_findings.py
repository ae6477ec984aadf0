"""Findings about queues are decided by exact counts over one time. Other queues do not matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from penstock.commands import read
from penstock.model.monitoring import FinishRate, RecentOutcomes, RingSegments
from penstock.model.queue import Queue, QueueSettings, QueueStats
from penstock.server.database import Database
from penstock.server.monitoring.snapshots import Snapshot, SnapshotCache
from penstock.server.ui.diagnosis import diagnose

Db = psycopg.Connection[Any]
AT = datetime(2030, 1, 1, tzinfo=UTC)
BUSY_SAMPLE = [FinishRate("busy", "done", 5_000, 2.5)]


@pytest.fixture
def db(dsn: str) -> Iterator[Db]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def snapshot_of(name: str, oldest: float = 0, **settings: Any) -> Snapshot:
    """One queue, with the charts up to date."""
    stats = QueueStats(name, 5, 0, 0, 0, oldest, False)
    return Snapshot(
        1,
        AT,
        stats=[stats],
        exact=[stats],
        queues=[Queue(name, QueueSettings(**settings), AT, AT)],
        outcomes=RecentOutcomes(is_current=True),
    )


def kinds(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(each.kind, each.severity) for each in diagnose(snapshot)]


def test_samples_that_cover_different_times_make_no_failure_rate() -> None:
    """One attempt in a hundred fails. The samples have all failures, and few of the successes."""
    shown = replace(
        snapshot_of("orders"),
        finished=[FinishRate("orders", "done", 250, 2.5), *BUSY_SAMPLE],
        failed=[FinishRate("orders", "failed", 300, 300)],
        outcomes=RecentOutcomes(done={"orders": 29_700}, failed={"orders": 300}, is_current=True),
    )
    assert kinds(shown) == []
    worse = RecentOutcomes(done={"orders": 299}, failed={"orders": 300}, is_current=True)
    [finding] = diagnose(replace(shown, outcomes=worse))
    assert finding.kind == "failing"
    assert finding.text == "300 failed and 299 succeeded in the last five minutes."


def test_few_attempts_are_no_failure_rate() -> None:
    few = RecentOutcomes(failed={"orders": 19}, is_current=True)
    assert kinds(replace(snapshot_of("orders"), outcomes=few)) == []


def test_a_quiet_queue_beside_a_busy_one_has_a_worker_if_it_has_done_messages() -> None:
    quiet = replace(snapshot_of("quiet", oldest=90), finished=BUSY_SAMPLE)
    assert kinds(quiet) == [("no-worker", "critical")]
    done = RecentOutcomes(done={"quiet": 1}, is_current=True)
    assert kinds(replace(quiet, outcomes=done)) == []


def test_without_complete_counts_a_queue_is_behind_but_not_without_a_worker() -> None:
    unknown = replace(
        snapshot_of("quiet", oldest=90), finished=BUSY_SAMPLE, outcomes=RecentOutcomes()
    )
    assert kinds(unknown) == []
    late = replace(
        snapshot_of("quiet", oldest=900), finished=BUSY_SAMPLE, outcomes=RecentOutcomes()
    )
    [finding] = diagnose(late)
    assert (finding.kind, finding.severity) == ("behind", "warning")
    assert "the charts are not up to date" in finding.text


def test_a_sample_of_all_that_finished_in_five_minutes_is_as_good_as_the_charts() -> None:
    calm = replace(snapshot_of("mails", oldest=90), outcomes=RecentOutcomes())
    assert kinds(calm) == [("no-worker", "critical")]
    served = [FinishRate("mails", "done", 1, 300)]
    assert kinds(replace(calm, finished=served)) == []


def test_a_queue_without_history_is_behind_but_not_without_a_worker() -> None:
    assert kinds(snapshot_of("fast", oldest=90, keep_history=0)) == []
    [finding] = diagnose(snapshot_of("fast", oldest=900, keep_history=0))
    assert (finding.kind, finding.severity) == ("behind", "warning")
    assert "the queue keeps no history" in finding.text


def test_leases_that_expire_a_ring_without_room_and_rescued_messages_are_findings() -> None:
    calm = snapshot_of("orders")
    assert kinds(replace(calm, expired={"orders": 10}, ring=RingSegments(1, 6, 0, 1, False))) == []
    assert kinds(replace(calm, expired={"orders": 11})) == [("leases", "note")]
    assert kinds(replace(calm, ring=RingSegments(1, 7, 0, 0, False))) == [("ring", "note")]
    assert kinds(replace(calm, rescued=1)) == [("rescan", "warning")]


def test_expired_leases_are_counted_by_queue(db: Db) -> None:
    settle(db, "orders", 1, 2)
    db.execute(
        "insert into penstock.attempt_log (slot, message_id, queue, attempt, started_at, ended_at, "
        "error, state) select 0, n, 'orders', 1, now(), now() - interval '5 minutes' * n, "
        "'the lease expired', 'ready' from generate_series(0, 3) n"
    )
    command = read.expired_leases()
    found = command.decode(db.execute(command.sql, command.params).fetchall())
    assert found == {"orders": 3}


async def test_messages_that_a_rescan_found_are_news_for_an_hour(dsn: str, db: Db) -> None:
    database = Database(dsn, 1)
    await database.open()
    try:
        cache = SnapshotCache(database)
        assert (await cache.look()).rescued == 0
        db.execute("select nextval('penstock.rescans_found')")
        cache.forget()
        before = (await cache.look()).counters[1]
        db.execute("select nextval('penstock.rescans_found')")
        cache.forget()
        found = await cache.look()
        assert (found.counters[1] - before, found.rescued >= 1) == (1, True)
        # An hour later, without a look in between.
        cache._rescues = deque((at - 3601, total) for at, total in cache._rescues)
        cache.forget()
        assert (await cache.look()).rescued == 0
    finally:
        await database.close()


def outcomes(db: Db) -> RecentOutcomes:
    command = read.recent_outcomes()
    return command.decode(db.execute(command.sql, command.params).fetchall())


def record(db: Db) -> None:
    """Record the charts as if the last call had been in an earlier minute."""
    db.execute("update penstock.chart_progress set recorded_at = now() - interval '1 minute'")
    db.execute("select penstock.record_charts()")


def settle(db: Db, queue: str, done: int, rejected: int) -> None:
    db.execute("select penstock.create_queue(%s)", [queue])
    db.execute(
        "select penstock.enqueue(%s, '1') from generate_series(1, %s)", [queue, done + rejected]
    )
    claim = "from penstock.claim(%s, %s, lease_seconds => 60)"
    db.execute(f"select penstock.ack(id, token) {claim}", [queue, done])
    db.execute(f"select penstock.reject(id, token, 'no') {claim}", [queue, rejected])


def test_outcomes_are_exact_for_each_queue_whatever_the_sample_holds(db: Db) -> None:
    assert outcomes(db) == RecentOutcomes(is_current=False)
    settle(db, "quiet", 3, 2)
    settle(db, "busy", 40, 1)
    record(db)
    found = outcomes(db)
    assert found.done == {"quiet": 3, "busy": 40}
    assert found.failed == {"quiet": 2, "busy": 1}
    assert found.is_current
    db.execute("update penstock.chart_point set at = at - interval '10 minutes'")
    assert outcomes(db) == RecentOutcomes(is_current=True)


def test_charts_that_are_behind_or_not_recorded_are_not_current(db: Db) -> None:
    record(db)
    db.execute("update penstock.chart_progress set is_behind = true")
    assert not outcomes(db).is_current
    db.execute(
        "update penstock.chart_progress set is_behind = false, "
        "recorded_at = now() - interval '3 minutes'"
    )
    assert not outcomes(db).is_current
