"""Internal queues, whose names begin with "penstock.", are for admins alone."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from tests.contracts_sql.statements import claim_by

from .conftest import INCOMING_TABLE, LogIn, Login

QUEUE = "penstock.tasks"
PRODUCER = [
    f"select penstock.enqueue('{QUEUE}', '1')",
    f"select penstock.enqueue('{QUEUE}', '1', key => 'k')",
    f"select penstock.enqueue('{QUEUE}', '1', group_key => 'g')",
    f"select penstock.enqueue_many('{QUEUE}', array['1', '2']::jsonb[])",
    f"select penstock.enqueue_many('{QUEUE}', array['1']::jsonb[], keys => array['k'])",
    f"select penstock.spark_put('{QUEUE}', array['1']::jsonb[])",
    f"select penstock.spark_stage(gen_random_uuid(), 0, '{QUEUE}', array['1']::jsonb[])",
    f"insert into mdb_queue.messages (queue_name, payload) values ('{QUEUE}', '1')",
]
CONSUMER = [
    f"select * from penstock.claim('{QUEUE}')",
    f"select * from penstock.claim('{QUEUE}', 100)",
    f"select * from penstock.claim('{QUEUE}.dlq')",
    f"select penstock.attend('{QUEUE}')",
    f"select penstock.stats('{QUEUE}')",
    f"select penstock.spark_ready('{QUEUE}', 1)",
    f"select penstock.spark_plan('c', 1, 1, array['{QUEUE}'], array[1])",
]


@pytest.fixture
def dsn(pgmq_dsn: str) -> str:
    return pgmq_dsn


@pytest.fixture
def world(db: psycopg.Connection[Any]) -> None:
    """The queue with a waiting message, a leased one and a dead letter, and a stream for it."""
    db.execute("select penstock.create_queue('orders')")
    db.execute("select penstock.create_queue(%s, '{\"max_attempts\": 1}')", [QUEUE])
    db.execute(
        "select penstock.enqueue(%s, to_jsonb('secret ' || n)) from generate_series(1, 3) n",
        [QUEUE],
    )
    [(id, token)] = db.execute("select id, token from penstock.claim(%s)", [QUEUE]).fetchall()
    db.execute("select penstock.reject(%s, %s, 'secret')", [id, token])
    db.execute("select penstock.claim(%s)", [QUEUE])
    db.execute("select penstock.spark_attach('c')")


def contents(db: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    query = (
        "select id, queue, state, payload, attempt, lease_until from penstock.messages order by id"
    )
    return db.execute(query).fetchall()


def refused(login: Login, statements: list[str]) -> None:
    for each in statements:
        with pytest.raises(  # noqa: PT012
            InsufficientPrivilege, match=f"internal queue '{QUEUE}"
        ):
            login.rows(each)
            pytest.fail(each)


def test_a_producer_enqueues_nothing_there(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    before = contents(db)
    producer = log_in("penstock_producer")
    refused(producer, PRODUCER)
    with producer.session.transaction():
        producer.rows(INCOMING_TABLE)
        producer.rows(
            "insert into pg_temp.penstock_incoming (queue, payload) values (%s, '1')", QUEUE
        )
        refused_in_block(producer, "select penstock.spark_enqueue('job', 0, 0)")
    assert contents(db) == before


def refused_in_block(login: Login, call: str) -> None:
    with pytest.raises(InsufficientPrivilege, match="internal queue"), login.session.transaction():
        login.rows(call)


def test_a_consumer_sees_and_changes_nothing_there(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    before = contents(db)
    consumer = log_in("penstock_consumer")
    refused(consumer, CONSUMER)
    number = db.execute("select id from penstock.queue where name = %s", [QUEUE]).fetchall()[0][0]
    consumer.rows(
        "create function public.peek(anyelement) returns boolean cost 0.0001 language plpgsql as "
        "$$ begin raise notice 'peeked at %', $1; return true; end $$"
    )
    for each in [
        f"select * from mdb_queue.messages where queue_name = '{QUEUE}'",
        "select * from mdb_queue.messages where public.peek(payload)",
        "select * from mdb_queue.dead_messages",
        "select * from mdb_queue.dead_messages where public.peek(payload)",
        "select * from penstock.queues where public.peek(name) and name <> 'orders'",
        "select * from mdb_queue.queues where public.peek(name) and name <> 'orders'",
        f"select * from mdb_queue._rows({number}, 'orders')",
        f"select * from mdb_queue._rows({number}, '{QUEUE}')",
        claim_by("w", 10, QUEUE),
        f"delete from mdb_queue.messages where queue_name = '{QUEUE}' returning id",
        f"update mdb_queue.messages set last_error = '' where queue_name = '{QUEUE}' returning 1",
    ]:
        assert consumer.rows(each) == [], each
    assert "secret" not in str(consumer.notices)
    assert QUEUE not in str(consumer.notices)
    assert contents(db) == before


def test_pgmq_knows_nothing_of_them(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    before = contents(db)
    consumer, producer = log_in("penstock_consumer"), log_in("penstock_producer")
    number = db.execute("select id from penstock.queue where name = %s", [QUEUE]).fetchall()[0][0]
    for id, *_ in before:
        for call in (
            f"delete('{QUEUE}', {id})",
            f"archive('{QUEUE}', {id})",
            f"set_vt('{QUEUE}', {id}, 0)",
            f"read('{QUEUE}', 1, 9)",
            f"pop('{QUEUE}')",
        ):
            with pytest.raises(psycopg.Error, match=r"does not exist|internal queue"):
                consumer.rows(f"select pgmq.{call}")
    assert consumer.rows(f"select * from pgmq._rows({number})") == []
    assert QUEUE not in str(consumer.rows("select pgmq.list_queues()"))
    assert QUEUE not in str(consumer.rows("select pgmq.metrics_all()"))
    with pytest.raises(psycopg.Error):
        producer.rows(f"select pgmq.send('{QUEUE}', '1')")
    assert contents(db) == before


def test_an_operator_uses_them(db: psycopg.Connection[Any], world: None, log_in: LogIn) -> None:
    operator = log_in("penstock_operator")
    assert operator.rows("select name from penstock.queues where name = %s", QUEUE) == [(QUEUE,)]
    for each in [*PRODUCER, *CONSUMER]:
        if "spark_plan" not in each:
            operator.rows(each)


def test_the_role_that_was_set_counts(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    operator = log_in("penstock_operator")
    db.execute(f"grant penstock_producer to {operator.name}")
    operator.rows("set role penstock_producer")
    refused(operator, PRODUCER)
    operator.rows("reset role")
    operator.rows(PRODUCER[0])
    producer = log_in("penstock_producer")
    for setting in ("role", "session_authorization"):
        with pytest.raises(psycopg.Error, match="permission denied"):
            producer.rows("select set_config(%s, 'penstock_operator', false)", setting)
    refused(producer, PRODUCER)


def test_a_stream_of_an_admin_is_not_a_consumers(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    db.execute("select penstock.spark_plan('c', 1, 1, array[%s], array[1])", [QUEUE])
    consumer = log_in("penstock_consumer")
    refused(consumer, ["select * from penstock.spark_claim('c', 1, 1, 0)"])
    db.execute("select penstock.spark_claim('c', 1, 1, 0)")
    refused(consumer, ["select penstock.spark_release('c')"])
    db.execute("select penstock.spark_ack('c', 1, 1)")
    refused(consumer, ["select penstock.spark_settle('c', 1, 0)"])


def test_a_schedule_of_an_admin_is_fired_by_consumers(
    db: psycopg.Connection[Any], world: None, log_in: LogIn
) -> None:
    before = len(contents(db))
    db.execute("select penstock.create_schedule('s', %s, '* * * * *', '\"fired\"')", [QUEUE])
    db.execute("update penstock.schedule set next_fire_at = now() - interval '1 minute'")
    assert log_in("penstock_consumer").value("select fired from penstock.fire_schedules()") == 1
    assert db.execute("select last_error from penstock.schedule").fetchall() == [(None,)]
    assert len(contents(db)) == before + 1
    producer = log_in("penstock_producer")
    with pytest.raises(InsufficientPrivilege):
        producer.rows("select penstock.create_schedule('t', %s, '* * * * *')", QUEUE)


def test_other_queues_may_have_similar_names(db: psycopg.Connection[Any], log_in: LogIn) -> None:
    producer = log_in("penstock_producer")
    for name in ("penstock", "penstock-tasks", "my.penstock.tasks"):
        db.execute("select penstock.create_queue(%s)", [name])
        assert producer.value("select penstock.enqueue(%s, '1')", name) > 0
