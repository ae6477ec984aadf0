"""Filters of Spark that PostgreSQL evaluates: the same rows, and fewer of them sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from tests.conftest import Connect
from tests.lake.following import rows_of

from penstock.spark.filters import push_down
from penstock.spark.source import PenstockSource
from penstock.spark.table_columns import HISTORY

SOON = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def db(connect: Connect) -> Any:
    connection = connect()
    for queue in ("orders", "mail"):
        connection.execute("select penstock.create_queue(%s)", [queue])
        connection.execute(
            "select penstock.enqueue_many(%s, array['1', '2', '3']::jsonb[])", [queue]
        )
        connection.execute(
            "select penstock.ack_many(array_agg(id), array_agg(token)) from penstock.claim(%s, 3)",
            [queue],
        )
    return connection


@pytest.mark.parametrize(
    ("found", "count"),
    [
        (EqualTo(("queue",), "orders"), 3),
        (EqualTo(("queue",), "'; drop table x; --\\ %s {0}"), 0),
        (EqualNullSafe(("state",), "done"), 6),
        (In(("queue",), ("mail", "orders", "x")), 6),
        (Not(In(("queue",), ("mail",))), 3),
        (StringStartsWith(("queue",), "or"), 3),
        (GreaterThan(("attempts",), 0), 6),
        (LessThanOrEqual(("finished_at",), SOON), 6),
        (GreaterThan(("enqueued_at",), SOON), 0),
        (IsNull(("key",)), 6),
        (IsNotNull(("key",)), 0),
    ],
)
def test_postgresql_evaluates_it(db: Any, dsn: str, found: Filter, count: int) -> None:
    source = PenstockSource({"dsn": dsn, "table": "history", "pushdown": "on"})
    reader = source.reader(source.schema())
    assert list(reader.pushFilters([found])) == []
    rows = rows_of([each for part in reader.partitions() for each in reader.read(part)])
    assert len(rows) == count


def test_live_messages_are_filtered_too(db: Any, dsn: str) -> None:
    db.execute("select penstock.enqueue('mail', '4'), penstock.enqueue('orders', '5')")
    source = PenstockSource({"dsn": dsn, "table": "messages", "pushdown": "on"})
    reader = source.reader(source.schema())
    assert list(reader.pushFilters([EqualTo(("queue",), "mail")])) == []
    rows = rows_of([each for part in reader.partitions() for each in reader.read(part)])
    assert [row["payload"] for row in rows] == ["4"]


@pytest.mark.parametrize(
    "found",
    [
        EqualTo(("payload",), "1"),
        EqualTo(("service",), "local"),
        EqualTo(("queue", "inner"), "1"),
        EqualTo(("queue",), "a\0b"),
        GreaterThan(("queue",), "a"),
        EqualNullSafe(("queue",), None),
        In(("queue",), ("a", None)),
        Not(StringContains(("queue",), "a")),
        EqualTo(("finished_at",), datetime(2026, 1, 1)),
        EqualTo(("id",), 1.5),
    ],
)
def test_what_postgresql_may_decide_otherwise_stays_with_spark(found: Filter) -> None:
    assert push_down(HISTORY, [found]) == ([], [found])


def test_without_the_option_nothing_is_pushed(dsn: str) -> None:
    """Spark refuses a reader with pushFilters unless the user has enabled it."""
    source = PenstockSource({"dsn": dsn, "table": "history"})
    found = [EqualTo(("queue",), "orders")]
    assert list(source.reader(source.schema()).pushFilters(found)) == found


@pytest.mark.xdist_group("spark")
def test_spark_pushes_its_filters(spark: Any, db: Any, dsn: str) -> None:
    options = {"dsn": dsn, "table": "history", "pushdown": "on"}
    frame = spark.read.format("penstock").options(**options).load()
    chosen = frame.where(
        "queue = 'orders' and finished_at > '2026-01-01T00:00:00Z' and id % 1 = 0"
        " and state in ('done', 'dead') and attempts < 5 and key is null"
    )
    assert chosen.count() == 3
    assert frame.where("queue > 'n' and queue like 'ma%'").count() == 0
    plan = chosen._jdf.queryExecution().executedPlan().toString()
    # What Spark evaluates itself is in a node Filter above the scan.
    assert "id#" in plan.split("Filter", 1)[1].splitlines()[0], plan
    left = plan.split("Filter", 1)[1].splitlines()[0]
    for word in ("orders", "finished_at", "state", "attempts", "key"):
        assert word not in left, plan
