"""DataFrames written into queues: every row once, with all that an enqueue can say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Connect

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def db(connect: Connect) -> Any:
    connection = connect()
    connection.execute("select penstock.create_queue('mail')")
    return connection


def write(frame: Any, dsn: str, **options: str) -> None:
    frame.write.format("penstock").options(dsn=dsn, **options).mode("append").save()


def waiting(db: Any) -> list[Any]:
    return db.execute("select payload from penstock.messages order by id").fetchall()


def test_a_job_enqueues_each_row_once(spark: Any, db: Any, dsn: str) -> None:
    frame = spark.range(25_000).selectExpr("to_json(named_struct('n', id)) as payload")
    write(frame, dsn, queue="mail", job="campaign-17")
    write(frame, dsn, queue="mail", job="campaign-17")
    assert sorted(row[0]["n"] for row in waiting(db)) == list(range(25_000))
    write(frame.limit(10), dsn, queue="mail")
    write(frame.limit(10), dsn, queue="mail")
    assert len(waiting(db)) == 25_020
