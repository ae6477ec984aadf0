"""What producers, consumers and operators may do, and other roles may not in any way."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from .sessions import Connection, count, rows, value
from .statements import ACK, CLAIM, ENQUEUE, EXTEND, NACK

As = Callable[[str], Connection]

ENQUEUES = ["select penstock.enqueue('order-events', '1')"]
CLAIMS = ["select penstock.claim('order-events')", CLAIM]
OPERATES = [
    "select penstock.create_queue('other')",
    "select penstock.set_queue('order-events', '{\"paused\": true}')",
    "select penstock.purge('order-events')",
    "select penstock.redrive('order-events')",
    "select penstock.drop_queue('order-events', true)",
    "select penstock.cancel(1)",
    "insert into mdb_queue.queues (name) values ('another')",
    "update mdb_queue.queues set max_attempts = 9",
    "delete from mdb_queue.queues",
    "delete from mdb_queue.dead_messages",
    "select * from penstock.messages",
    "select * from penstock.history",
    "select * from penstock.dead_letters",
]


@pytest.fixture
def act_as(session: Callable[..., Connection]) -> As:
    """Opens a session that has this role and no other."""

    def act_as(role: str) -> Connection:
        connection = session()
        rows(connection, f"set session authorization {role}")
        return connection

    return act_as


@pytest.fixture(autouse=True)
def queue(db: Connection) -> None:
    rows(db, "select penstock.create_queue('order-events')")


def test_a_producer_enqueues_and_does_nothing_else(act_as: As) -> None:
    producer = act_as("penstock_producer")
    assert value(producer, ENQUEUES[0]) > 0
    assert value(producer, ENQUEUE, "order-events", "{}", 0) > 0
    assert value(producer, "select max_attempts from mdb_queue.queues") == 5
    assert value(producer, "select name from penstock.queues") == "order-events"
    refused(producer, [*CLAIMS, *OPERATES, "select id from mdb_queue.messages"])
    refused(producer, ["delete from mdb_queue.messages", "select penstock.ack(1, 1)"])


def test_a_producer_cannot_claim_by_pretending_to(act_as: As) -> None:
    producer = act_as("penstock_producer")
    value(producer, ENQUEUES[0])
    rows(producer, "select set_config('mdb_queue.act', 'claim 10', false)")
    refused(producer, ["select id from mdb_queue.messages"])
    refused(producer, ["select * from mdb_queue._rows(1, 'order-events')"])


def test_a_consumer_claims_and_settles_and_does_nothing_else(db: Connection, act_as: As) -> None:
    consumer = act_as("penstock_consumer")
    ids = [value(db, ENQUEUES[0]) for _ in range(3)]
    large = value(db, "select penstock.enqueue('order-events', to_jsonb(repeat('x', 5000)))")
    [claimed] = rows(consumer, "select id, token from penstock.claim('order-events')")
    rows(consumer, "select penstock.ack($1, $2)", *claimed)
    assert [row[0] for row in rows(consumer, CLAIM)] == [*ids[1:], large]
    assert count(consumer, EXTEND, ids[1], "worker-1", 90) == 1
    assert count(consumer, NACK, ids[1], "worker-1", 60, "no") == 1
    assert count(consumer, ACK, ids[2], "worker-1") == 1
    found = "select payload from mdb_queue.messages where claimed_by = 'worker-1'"
    assert value(consumer, found) == "x" * 5000
    refused(consumer, [*ENQUEUES, *OPERATES])
    refused(consumer, ["insert into mdb_queue.messages (queue_name, payload) values ('x', '1')"])


def test_an_operator_does_everything(db: Connection, act_as: As) -> None:
    operator = act_as("penstock_operator")
    value(operator, "select penstock.enqueue('order-events', to_jsonb(repeat('x', 5000)))")
    for statement in [*ENQUEUES, *CLAIMS, *OPERATES]:
        if "cancel" not in statement and "delete from mdb_queue.queues" not in statement:
            rows(operator, statement)
    assert rows(operator, "select name from penstock.queues order by name") == [
        ("another",),
        ("other",),
    ]


@pytest.mark.parametrize("role", ["penstock_producer", "penstock_consumer", "penstock_operator"])
def test_tables_and_inner_functions_are_nobodys(db: Connection, act_as: As, role: str) -> None:
    caller = act_as(role)
    refused(
        caller,
        [
            "select * from penstock.lane_1",
            "select * from penstock.ready_1",
            "select * from penstock.held_1",
            "delete from penstock.queue",
            "insert into penstock.dead select * from penstock.dead",
            "select setval('penstock.position', 1)",
            "select nextval('penstock.lease_number')",
            "select * from penstock.migration",
            "select penstock._fail('PS001', 'x', '{}', 'x')",
            "select penstock._register('mine')",
            "select penstock._put_again(1, 1)",
            "select * from mdb_queue._all_rows(1)",
            "create table penstock.mine ()",
        ],
    )


def test_a_stranger_gets_nowhere(db: Connection, act_as: As) -> None:
    role = f"stranger_{db.info.backend_pid}"
    rows(db, f"create role {role}")
    try:
        refused(act_as(role), [*ENQUEUES, *CLAIMS, *OPERATES])
        # Nor with the schema alone.
        rows(db, f"grant usage on schema penstock, mdb_queue to {role}")
        refused(act_as(role), [*ENQUEUES, *CLAIMS, *OPERATES])
    finally:
        rows(db, f"drop owned by {role}")
        rows(db, f"drop role {role}")


def test_what_a_role_may_call_has_its_own_search_path(db: Connection) -> None:
    query = """
        select p.oid::regprocedure::text,
               coalesce(p.proconfig::text, '') ~ 'search_path=pg_catalog, pg_temp'
        from pg_proc p
        where p.pronamespace in ('penstock'::regnamespace, 'mdb_queue'::regnamespace)
          and (has_function_privilege('penstock_operator', p.oid, 'execute')
               or has_function_privilege('penstock_producer', p.oid, 'execute')
               or has_function_privilege('penstock_consumer', p.oid, 'execute'))"""
    found = rows(db, query)
    assert len(found) > 40
    assert [name for name, has_its_own in found if not has_its_own] == []


def test_a_callers_search_path_changes_nothing(db: Connection, act_as: As) -> None:
    """Everything that a function might take from the path, booby-trapped."""
    rows(db, "create schema trap")
    rows(db, "grant usage on schema trap to public")
    for name in ("clock_timestamp", "now"):
        rows(
            db,
            f"""create function trap.{name}() returns timestamptz language plpgsql as
                     $$ begin raise exception 'trapped by {name}'; end $$""",
        )
    for function in ("lower(text)", "nextval(regclass)", "pg_sequence_last_value(regclass)"):
        rows(
            db,
            f"""create function trap.{function} returns bigint language plpgsql as
                     $$ begin raise exception 'trapped by {function}'; end $$""",
        )
    rows(
        db,
        """create function trap.same(text, text) returns boolean language plpgsql as
                $$ begin raise exception 'trapped by an operator'; end $$""",
    )
    rows(db, "create operator trap.= (function = trap.same, leftarg = text, rightarg = text)")
    for role, statements in {
        "penstock_producer": [*ENQUEUES],
        "penstock_consumer": ["select penstock.claim('order-events')"],
        "penstock_operator": ["select penstock.stats('order-events')", OPERATES[0]],
    }.items():
        caller = act_as(role)
        rows(caller, "set search_path = trap, pg_catalog")
        for statement in statements:
            rows(caller, statement)


def refused(connection: Connection, statements: list[str]) -> None:
    for statement in statements:
        try:
            connection.execute(statement)
        except InsufficientPrivilege:
            continue
        except psycopg.Error as error:
            pytest.fail(f"{statement}: {error}")
        pytest.fail(f"not refused: {statement}")
