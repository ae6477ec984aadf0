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


def test_a_job_with_other_rows_is_refused(spark: Any, db: Any, dsn: str) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("to_json(named_struct('n', id)) as payload")
    write(frame, dsn, queue="mail", job="campaign-17")
    write(frame.repartition(3), dsn, queue="mail", job="campaign-17")
    with pytest.raises(Exception, match="was written before with other rows: 1000"):
        write(frame.limit(999), dsn, queue="mail", job="campaign-17")
    assert len(waiting(db)) == 1000


def test_a_write_that_fails_in_one_partition_enqueues_nothing(
    spark: Any, db: Any, dsn: str
) -> None:
    wrong = "if(id = 777, '{', to_json(named_struct('n', id))) as payload"
    frame = spark.range(0, 1000, 1, 4).selectExpr(wrong)
    with pytest.raises(Exception, match="row 27 of partition 3, column payload: invalid input"):
        write(frame, dsn, queue="mail")
    assert waiting(db) == []
    # Spark kills the other tasks. Upkeep deletes rows that one of them staged but did not report.
    db.execute("update penstock.spark_staged set staged_at = staged_at - interval '2 days'")
    db.execute("select penstock._forget_staged()")
    assert db.execute("select count(*) from penstock.spark_staged").fetchone() == (0,)
