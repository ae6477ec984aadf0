"""Landing: everything finished is in bronze, once, as it was, on the day it belongs to."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.errors import LakeConflictError
from penstock.lake.bronze import Landing
from penstock.lake.layout import BRONZE_ATTEMPTS, BRONZE_HISTORY, STAGING

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def test_finished_messages_and_failed_attempts_land_once(
    traffic: Any, lake: Any, land: Any
) -> None:
    ids = traffic.done("orders", 2500)
    failed = traffic.fails("mail", "boom", attempts=2)
    assert land(lake, max_rows=1000) == 2500 + 1 + 2
    assert land(lake) == 0
    found = lake.frame(BRONZE_HISTORY).collect()
    assert sorted(row.id for row in found) == sorted([*ids, failed])
    assert {row.queue for row in found} == {"orders", "mail"}
    attempts = lake.frame(BRONZE_ATTEMPTS).orderBy("attempt").collect()
    assert [(row.attempt, row.state) for row in attempts] == [(1, "ready"), (2, "ready")]


def test_a_message_lands_as_it_was(client: Any, lake: Any, land: Any, sql: Any) -> None:
    client.create_queue("odd")
    client.enqueue("odd", {"ü": [1, None, "\n"]}, key="k", priority=3, headers={"a": "b"})
    client.enqueue("odd", b"\x00\xff", group="g")
    while leases := client.claim("odd", 10):
        client.ack_many(leases)
    land(lake)
    first, second = lake.frame(BRONZE_HISTORY).orderBy("id").collect()
    assert (first.payload, first.payload_bytes) == ('{"ü": [1, null, "\\n"]}', None)
    assert (first.key, first.priority, first.headers) == ("k", 3, '{"a": "b"}')
    assert (second.payload, bytes(second.payload_bytes), second.group_key) == (
        None,
        b"\x00\xff",
        "g",
    )
    (finished, xid) = sql(
        "select finished_at, xid::text::bigint from penstock.history where id = %s", first.id
    )[0]
    assert first.finished_at.astimezone(datetime.UTC) == finished
    assert first.xid == xid


def test_a_row_that_was_committed_late_lands_on_its_own_day(
    dsn: str, traffic: Any, lake: Any, land: Any
) -> None:
    with psycopg.connect(dsn) as slow:
        # What a transaction leaves that acked before midnight and committed after it.
        slow.execute(
            "insert into penstock.history_log (slot, id, queue, state, enqueued_at, finished_at,"
            " attempts, max_attempts, priority, payload_bytes_count, headers_bytes_count, payload)"
            " values (0, 7, 'orders', 'done', '2026-01-30 23:00Z', '2026-01-30 23:59:59.9Z',"
            " 1, 5, 0, 2, 0, '{}')"
        )
        traffic.done("orders", 10)
        assert land(lake) == 10
        slow.commit()
    assert land(lake) == 1
    (late,) = [file for file in lake.state().of(BRONZE_HISTORY) if file.day == "2026-01-30"]
    assert (late.rows, late.queue, late.id_min) == (1, "orders", 7)


def test_a_queue_whose_name_looks_like_a_number_or_a_day_keeps_it(
    traffic: Any, lake: Any, land: Any
) -> None:
    names = {"007", "1e3", "2026-01-31", "true", "a.b_c-d"}
    for name in names:
        traffic.done(name, 1)
    land(lake)
    assert {row.queue for row in lake.frame(BRONZE_HISTORY).collect()} == names


def test_of_two_runs_that_land_the_same_batch_one_is_refused(
    dsn: str, traffic: Any, lake: Any
) -> None:
    traffic.done("orders", 100)
    with Landing(lake, {"dsn": dsn}, 1000) as one, Landing(lake, {"dsn": dsn}, 1000) as two:
        state = lake.state()
        first, second = one.next_batch(state), two.next_batch(state)
        assert first is not None
        assert second is not None
        one.land(first)
        with pytest.raises(LakeConflictError, match="another run has landed"):
            two.land(second)
    assert lake.frame(BRONZE_HISTORY).count() == 100


def test_a_batch_that_was_written_but_not_decided_leaves_nothing(
    traffic: Any, lake: Any, land: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic.done("orders", 100)

    def killed(entry: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lake.ledger, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            land(lake)
    assert list(Path(root, STAGING).rglob("*.parquet"))
    assert lake.frame(BRONZE_HISTORY).count() == 0
    lake.clear_staging()
    assert not list(Path(root).rglob("*.parquet"))
    assert land(lake) == 100
    assert lake.frame(BRONZE_HISTORY).count() == 100
