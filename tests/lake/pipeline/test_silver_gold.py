"""Silver and gold: the transforms on rows made here, and gold against a recount in SQL."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.browsing.test_error_kinds import TRACEBACKS

from penstock.lake import columns, gold, histogram, silver
from penstock.lake.gold_rows import added, count_gold
from penstock.lake.layout import (
    BRONZE_ATTEMPTS,
    BRONZE_HISTORY,
    GOLD,
    GOLD_QUEUE_DAY,
    GOLD_QUEUE_MINUTE,
    GOLD_WORKER_MINUTE,
    SILVER_ATTEMPTS,
    SILVER_MESSAGES,
)
from penstock.lake.publish import publish
from penstock.server.ui.errors import kind_of

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def message(id: int, **other: Any) -> dict[str, Any]:
    """Enqueued at noon, claimed after 2 s, done after 5."""
    return {
        "service": "local",
        "id": id,
        "state": "done",
        "enqueued_at": at(0),
        "first_claimed_at": at(2),
        "last_claimed_at": at(2),
        "finished_at": at(5),
        "attempts": 1,
        "max_attempts": 5,
        "priority": 0,
        "worker": "w1",
        "payload_bytes_count": 10,
        "headers_bytes_count": 0,
        "payload": "{}",
        "xid": 700 + id,
        "day": date(2026, 1, 31),
        "queue": "orders",
        **other,
    }


def attempt(id: int, number: int, **other: Any) -> dict[str, Any]:
    return {
        "service": "local",
        "message_id": id,
        "attempt": number,
        "worker": "w1",
        "started_at": at(number),
        "ended_at": at(number + 0.5),
        "error": "boom",
        "state": "ready",
        "xid": 700 + id,
        "day": date(2026, 1, 31),
        "queue": "orders",
        **other,
    }


@pytest.fixture
def frame(spark: Any) -> Any:
    """A DataFrame of a table of the lake; what a row leaves out is null."""

    def make(table: Any, rows: list[dict[str, Any]]) -> Any:
        schema = columns.schema(table)
        values = [tuple(row.get(name) for name in schema.fieldNames()) for row in rows]
        return spark.createDataFrame(values, schema)

    return make


def test_silver_has_each_message_once_with_its_durations(frame: Any) -> None:
    never_claimed = {"first_claimed_at": None, "last_claimed_at": None, "state": "expired"}
    rows = [message(1), message(1), message(2, attempts=0, worker=None, **never_claimed)]
    found = silver.messages(frame(BRONZE_HISTORY, rows)).orderBy("id").collect()
    assert [(r.id, r.wait_seconds, r.work_seconds, r.end_to_end_seconds) for r in found] == [
        (1, 2.0, 3.0, 5.0),
        (2, None, None, 5.0),
    ]
    assert found[0].__fields__ == columns.names(SILVER_MESSAGES)


def test_an_id_that_a_restored_database_gave_out_again_is_another_message(frame: Any) -> None:
    rows = [message(1), message(1, enqueued_at=at(1))]
    assert silver.messages(frame(BRONZE_HISTORY, rows)).count() == 2


def test_a_clock_that_stepped_back_makes_no_negative_time(frame: Any) -> None:
    (found,) = silver.messages(frame(BRONZE_HISTORY, [message(1, finished_at=at(-9))])).collect()
    assert (found.work_seconds, found.end_to_end_seconds) == (0.0, 0.0)


def test_errors_that_differ_in_their_values_are_of_one_kind(frame: Any) -> None:
    pairs = [
        ("timeout after 30.5 s", "timeout after 7 s"),
        ("no user 'ada'", "no user 'grace'"),
        (
            "order 3fa85f64-5717-4562-b3fc-2c963f66afa6 is missing",
            "order 00000000-0000-0000-0000-000000000000 is missing",
        ),
        ("KeyError: 1\n  at line 5", "KeyError: 2\n  at line 99"),
    ]
    errors = [error for pair in pairs for error in pair]
    rows = [attempt(number, 1, error=error) for number, error in enumerate(errors)]
    found = silver.attempts(frame(BRONZE_ATTEMPTS, rows)).orderBy("message_id").collect()
    kinds = [row.error_fingerprint for row in found]
    assert kinds[::2] == kinds[1::2]
    assert len(set(kinds)) == len(pairs)


def test_a_minute_of_gold(frame: Any) -> None:
    messages = [message(n, finished_at=at(n), payload_bytes_count=n) for n in range(3, 60)]
    messages += [message(99, attempts=3, finished_at=at(61))]
    attempts = [attempt(99, 1), attempt(99, 2), attempt(98, 5, state="dead")]
    events = gold.events(
        silver.messages(frame(BRONZE_HISTORY, messages)),
        silver.attempts(frame(BRONZE_ATTEMPTS, attempts)),
    )
    rows = count_gold(events, [GOLD_QUEUE_MINUTE])[GOLD_QUEUE_MINUTE]
    first, second = rows.sort_by("minute").to_pylist()
    assert [first[name] for name in ("finished", "done", "dead", "retried")] == [57, 57, 1, 0]
    assert (first["failed_attempts"], first["payload_bytes"]) == (3, sum(range(3, 60)))
    assert first["end_to_end_seconds_p50"] == pytest.approx(31.0, rel=0.01)
    assert first["wait_seconds_p99"] == pytest.approx(2.0, rel=0.01)
    assert [second[name] for name in ("finished", "retried", "failed_attempts")] == [1, 1, 0]
    assert rows.column_names == columns.names(GOLD_QUEUE_MINUTE)


def test_failed_attempts_count_in_queues_without_dead_letters(frame: Any) -> None:
    """The last attempt of such a message has no row: only the message that died tells of it."""
    dead = {"state": "dead", "last_error": "boom"}
    messages = [message(1, attempts=3, **dead), message(2, **dead), message(3)]
    attempts = [attempt(1, 1), attempt(1, 2)]
    events = gold.events(
        silver.messages(frame(BRONZE_HISTORY, messages)),
        silver.attempts(frame(BRONZE_ATTEMPTS, attempts)),
    )
    counted = count_gold(events, [GOLD_QUEUE_DAY, GOLD_WORKER_MINUTE])
    (day,) = counted[GOLD_QUEUE_DAY].to_pylist()
    assert (day["dead"], day["failed_attempts"]) == (2, 4)
    (load,) = counted[GOLD_WORKER_MINUTE].to_pylist()
    assert (load["finished"], load["failed_attempts"]) == (1, 4)


def test_gold_of_two_halves_adds_up_to_gold_of_the_whole(frame: Any) -> None:
    """In every column: rows of before need not be read again."""
    messages = [
        message(n, finished_at=at(n * 7 % 150), state="dead" if n % 5 == 0 else "done")
        | {"last_error": f"no {n}" if n % 5 == 0 else None, "worker": f"w{n % 3}"}
        for n in range(1, 60)
    ]
    attempts = [attempt(n, 1, ended_at=at(n), error=f"smtp {n}") for n in range(1, 40)]

    def counted(chosen: slice) -> Any:
        return count_gold(
            gold.events(
                silver.messages(frame(BRONZE_HISTORY, messages[chosen])),
                silver.attempts(frame(BRONZE_ATTEMPTS, attempts[chosen])),
            ),
            GOLD,
        )

    one, other, whole = (counted(part) for part in (slice(25), slice(25, None), slice(None)))
    for table in GOLD:
        changed, same = added(table, one[table], other[table])
        order = [(name, "ascending") for name in gold.KEYS[table]]
        sum_of_both = pa.concat_tables([changed, same]).sort_by(order)
        assert sum_of_both.to_pylist() == whole[table].sort_by(order).to_pylist()


def test_causes_of_errors_and_the_load_of_workers(frame: Any) -> None:
    messages = silver.messages(
        frame(BRONZE_HISTORY, [message(1), message(2, state="dead", last_error="no 5")])
    )
    attempts = silver.attempts(
        frame(BRONZE_ATTEMPTS, [attempt(3, 1, error="no 7"), attempt(4, 9, state="dead")])
    )
    events = gold.events(messages, attempts)
    causes = {row.error_kind: row for row in gold.error_day(events).collect()}
    assert {kind: (row.retries, row.dead) for kind, row in causes.items()} == {
        "no <n>": (1, 1),
        "boom": (0, 1),
    }
    (load,) = gold.worker_minute(events).collect()
    assert (load.worker, load.finished, load.failed_attempts) == ("w1", 1, 3)
    assert load.busy_seconds == 3.0 + 3.0 + 0.5 + 0.5


def test_kinds_of_errors_are_those_of_the_ui(spark: Any) -> None:
    chosen = random.Random(1)
    ids = ["".join(chosen.choices("0123456789abcdef", k=n)) for n in range(4, 33) for _ in range(9)]
    lines = [f"KeyError: no order {id} at [2001:db8::{id[:4]}]:80" for id in ids]
    expected = {**{line: kind_of(line) for line in lines}, **TRACEBACKS}
    rows = spark.createDataFrame([(error,) for error in expected], "error string")
    found = rows.select("error", silver.error_kind(rows.error).alias("kind")).collect()
    assert {row.error: row.kind for row in found} == {
        error: kind_of(kind) for error, kind in expected.items()
    }
    assert len({kind_of(line) for line in lines}) == 1


def test_percentiles_of_a_histogram_are_within_one_percent(spark: Any) -> None:
    values = [0.0, 0.000001, 0.0004, 0.5, 1.0, 2.5, 86_400.0, 1e7]
    rows = spark.createDataFrame([(1, value) for value in values], "k int, v double")
    (row,) = histogram.histograms(rows, ["k"], ["v"]).collect()
    ranks = [100 * (n + 1) / len(values) for n in range(len(values))]
    assert histogram.percentiles(row.v_histogram, ranks) == pytest.approx(values, rel=0.01)
    doubled = histogram.merged(row.v_histogram, row.v_histogram)
    assert histogram.percentiles(doubled, ranks) == pytest.approx(values, rel=0.01)
    assert histogram.percentiles("", [50]) == [None]


RECOUNT = """
select queue, count(*), count(*) filter (where state = 'done'), sum(payload_bytes_count)
from penstock.history_log group by queue order by queue
"""


@pytest.mark.usefixtures("one_day")
def test_gold_equals_a_recount_in_sql_after_every_batch(
    traffic: Any, lake: Any, land: Any, gild: Any, registry: Any, sql: Any
) -> None:
    for count in (30, 20):
        traffic.done("orders", count)
        traffic.fails("mail", "smtp 421", attempts=2)
        traffic.fails("mail", "smtp 550", attempts=2, ends_well=False)
        land(lake)
        gild(lake)
        publish(lake, registry)
        published = sql(
            "select queue, sum(finished)::bigint, sum(done)::bigint, sum(payload_bytes)::bigint"
            " from penstock.gold_queue_minute group by queue order by queue"
        )
        assert published == sql(RECOUNT)
        assert published == sql(
            "select queue, sum(finished)::bigint, sum(done)::bigint, sum(payload_bytes)::bigint"
            " from penstock.gold_queue_day group by queue order by queue"
        )
        failed, dead = sql(
            "select sum(failed_attempts)::int, sum(dead)::int"
            " from penstock.gold_queue_day where queue = 'mail'"
        )[0]
        assert failed == sql("select count(*) from penstock.attempt_log")[0][0]
        assert dead == sql("select count(*) from penstock.dead")[0][0]
    assert sql("select error_kind, retries, dead from penstock.gold_error_day order by 1") == [
        ("smtp <n>", 6, 2)
    ]
    assert lake.frame(SILVER_MESSAGES).count() == 52
    assert lake.frame(SILVER_ATTEMPTS).count() == 8
    # One file of a day, not one more for each refresh.
    assert all(len(lake.state().of(table)) <= 2 for table in GOLD)


def test_what_lands_again_after_a_new_beginning_is_in_silver_once(
    traffic: Any, lake: Any, land: Any, gild: Any
) -> None:
    traffic.done("orders", 25)
    land(lake)
    gild(lake)
    lake.begin_anew()
    assert land(lake) == 25
    gild(lake)
    assert lake.frame(BRONZE_HISTORY).count() == 50
    assert lake.frame(SILVER_MESSAGES).count() == 25
    assert lake.frame(GOLD_QUEUE_MINUTE).groupBy().sum("finished").first()[0] == 25
