"""Batches, tasks, bulk acts, worker commands, findings, API keys, purges and Iceberg's catalog.

They came after the first attack suite. Each rule here is one that a member of a role would like to
break.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from penstock.sql.expand import Expander

from .conftest import ROLES, LogIn, Login

INTERNAL = "penstock.tasks"
OPERATOR = {"penstock_operator"}
PRODUCER = {"penstock_producer", *OPERATOR}
CONSUMER = {"penstock_consumer", *OPERATOR}
EVERYBODY = set(ROLES)
# Who may call what. A function that is missing here is for the operator alone.
CALLERS = {
    **dict.fromkeys(["enqueue_all", "create_batch", "add_to_batch", "seal_batch"], PRODUCER),
    **dict.fromkeys(
        ["claim_within", "complete_many", "finish_batches", "report_progress", "beat_v2"], CONSUMER
    ),
    "complete_many_v2": CONSUMER,
    **dict.fromkeys(["drop_expired_results", "continue_cancels"], CONSUMER),
    **dict.fromkeys(["get_results", "get_outcome", "get_batch", "get_progress"], EVERYBODY),
    **dict.fromkeys(
        ["cancel_batch", "request_bulk_act", "step_bulk_act", "stop_bulk_act", "fail_bulk_act"],
        OPERATOR,
    ),
    **dict.fromkeys(["command_worker", "note_findings", "clear_findings"], OPERATOR),
    **dict.fromkeys(["create_key", "set_key", "revoke_key", "end_token"], OPERATOR),
    "note_key_use": OPERATOR,
    **dict.fromkeys(["recall_answer", "keep_answer", "move", "set_priority"], OPERATOR),
    **dict.fromkeys(["purge", "undo_purge", "erase_history", "count_finished"], OPERATOR),
    **dict.fromkeys(["lead_notifications", "store_announcements", "announcements"], OPERATOR),
}
# Tables with payloads, secrets or answers of others.
PRIVATE = [
    *("purged", "purge", "result", "progress", "batch", "batch_member", "batch_change"),
    *("bulk_act", "finding_note", "api_key", "api_key_use", "server_secret", "ended_token"),
    *("idempotent_answer", "heartbeat", "notifier", "announcement", "queue_counter"),
]
CATALOG = ["iceberg_tables", "iceberg_namespace_properties"]


@pytest.fixture
def dsn(pgmq_dsn: str) -> str:
    return pgmq_dsn


@pytest.fixture
def world(db: psycopg.Connection[Any]) -> dict[str, int]:
    """A batch, and an internal queue with a dead letter and a leased message."""
    db.execute("select penstock.create_queue('orders')")
    db.execute("select penstock.create_queue(%s, '{\"max_attempts\": 1}')", [INTERNAL])
    batch = value(db, "select penstock.create_batch('b')")
    dead = value(db, "select penstock.enqueue(%s, '1')", INTERNAL)
    token = value(db, "select token from penstock.claim(%s)", INTERNAL)
    db.execute("select penstock.reject(%s, %s, 'a secret')", [dead, token])
    leased = value(db, "select penstock.enqueue(%s, '2')", INTERNAL)
    token = value(db, "select token from penstock.claim(%s)", INTERNAL)
    return {"batch": batch, "dead": dead, "leased": leased, "token": token}


def value(db: psycopg.Connection[Any], query: str, *arguments: Any) -> Any:
    row = db.execute(query.encode(), arguments).fetchone()
    assert row is not None
    return row[0]


def refused(login: Login, statement: str, *arguments: Any) -> None:
    with pytest.raises(InsufficientPrivilege):
        login.rows(statement, *arguments)


def test_each_function_is_for_the_roles_that_need_it(db: psycopg.Connection[Any]) -> None:
    query = """
        select p.proname, array(select r from unnest(%s::text[]) r
                                where has_function_privilege(r, p.oid, 'execute'))
        from pg_proc p where p.pronamespace = 'penstock'::regnamespace and p.proname = any (%s)"""
    found = {name: set(roles) for name, roles in db.execute(query, [ROLES, list(CALLERS)])}
    assert found == CALLERS


@pytest.mark.parametrize("role", ["penstock_producer", "penstock_consumer"])
def test_nobody_reads_or_writes_the_tables_behind_them(log_in: LogIn, role: str) -> None:
    login = log_in(role)
    for table in [*PRIVATE, *CATALOG]:
        refused(login, f"select * from penstock.{table}")
        refused(login, f"delete from penstock.{table}")
    for view in ("purges", "batches", "bulk_acts", "heartbeats", "finding_notes", "api_keys"):
        refused(login, f"select * from penstock.{view}")


def test_an_operator_reads_views_and_not_the_tables_with_secrets(log_in: LogIn) -> None:
    operator = log_in("penstock_operator")
    for table in PRIVATE:
        refused(operator, f"select * from penstock.{table}")
        refused(operator, f"delete from penstock.{table}")
    assert "secret_hash" not in str(
        operator.session.execute("select * from penstock.api_keys").description
    )


def test_an_operator_writes_rows_of_the_catalog_of_iceberg_and_attaches_nothing(
    log_in: LogIn,
) -> None:
    operator = log_in("penstock_operator")
    operator.rows(
        "insert into penstock.iceberg_tables (catalog_name, table_namespace, table_name)"
        " values ('c', 'n', 't')"
    )
    assert operator.rows("delete from penstock.iceberg_tables returning table_name") == [("t",)]
    operator.rows(
        "create function public.trap() returns trigger language plpgsql as 'begin return null; end'"
    )
    for table in CATALOG:
        for statement in (
            f"create trigger t before insert on penstock.{table}"
            " for each row execute function public.trap()",
            f"create rule r as on insert to penstock.{table} do also notify trapped",
            f"create policy p on penstock.{table} using (true)",
            f"alter table penstock.{table} add trap boolean default true",
            f"create index on penstock.{table} ((catalog_name || public.trap()::text))",
            f"truncate penstock.{table}",
            f"create table public.child () inherits (penstock.{table})",
        ):
            refused(operator, statement)


def test_a_producer_puts_nothing_of_a_batch_into_internal_queues(
    db: psycopg.Connection[Any], world: dict[str, int], log_in: LogIn
) -> None:
    producer = log_in("penstock_producer")
    messages = f'[{{"queue": "{INTERNAL}", "payload": 1}}]'
    refused(producer, "select penstock.enqueue_all(%s)", messages)
    for payloads in ("array['1']::jsonb[]", "array[]::jsonb[]"):
        refused(producer, f"select penstock.add_to_batch(%s, %s, {payloads})", *target(world))
    for event in ("on_success", "on_failure", "on_finish"):
        with pytest.raises(psycopg.Error, match=r'does not begin with "penstock\."'):
            producer.rows(f"select penstock.create_batch({event} => %s)", messages)
    query = "select has_members from penstock.queue where name = %s"
    assert value(db, query, INTERNAL) is False


def target(world: dict[str, int]) -> tuple[int, str]:
    return world["batch"], INTERNAL


def test_a_producer_counts_no_message_of_others_as_a_member(
    db: psycopg.Connection[Any], world: dict[str, int], log_in: LogIn
) -> None:
    """The header says which batch a message belongs to. Only the table of members counts."""
    producer = log_in("penstock_producer")
    header = f'{{"penstock-batch": {world["batch"]}}}'
    producer.rows("select penstock.enqueue('orders', '1', headers => %s)", header)
    [(id, token)] = db.execute("select id, token from penstock.claim('orders')").fetchall()
    db.execute("select penstock.ack(%s, %s)", [id, token])
    db.execute("select penstock.finish_batches()")
    batch = "select total, done from penstock.get_batch(%s)"
    assert producer.rows(batch, world["batch"]) == [(0, 0)]


def test_a_consumer_enqueues_nothing_with_an_ack(
    db: psycopg.Connection[Any], world: dict[str, int], log_in: LogIn
) -> None:
    id = value(db, "select penstock.enqueue('orders', '1')")
    consumer = log_in("penstock_consumer")
    token = consumer.value("select token from penstock.claim('orders')")
    call = "select penstock.complete_many(%s, %s, array[null]::jsonb[], array[null]::int[], %s)"
    enqueues = f'[{{"after": {id}, "queue": "orders", "payload": 2}}]'
    refused(consumer, call, [id], [token], enqueues)
    assert value(db, "select count(*) from penstock.messages where queue = 'orders'") == 1
    # A member of both roles may, but not into an internal queue.
    db.execute(f"grant penstock_producer to {consumer.name}")
    refused(consumer, call, [id], [token], enqueues.replace("orders", INTERNAL))
    assert consumer.rows(call, [id], [token], enqueues) == [(id,)]


def test_a_consumer_cannot_guess_the_token_of_an_internal_lease(
    db: psycopg.Connection[Any], world: dict[str, int], log_in: LogIn
) -> None:
    """Its token reveals the number of the claim, and all but 12 bits of the next token."""
    consumer = log_in("penstock_consumer")
    refused(consumer, "select * from penstock.claim_within(%s, 10, 60, 'w', 1000)", INTERNAL)
    db.execute("select penstock.enqueue('orders', '1')")
    own = consumer.value("select token from penstock.claim('orders')")
    dead = value(db, "select token from penstock.claim(%s)", f"{INTERNAL}.dlq")
    for token in (world["token"], dead):
        assert 0 < token < 2**62
        assert abs(token - own) > 2**40
    # What it could try: every claim near its own, with every value of the random bits.
    near = Expander().text(
        """select {token.number(n, r)} + {token.segment_and_history(own)}
        from (select %s::bigint / {token.number(1, 0)} as claim, %s::bigint as own) t,
             generate_series(claim - 1, claim) n, generate_series(0, 4095) r"""
    )
    tries = [row[0] for row in db.execute(near, [own, own])]
    assert own in tries
    call = "select penstock.ack_many(%s, %s)"
    assert consumer.rows(call, [world["leased"]] * len(tries), tries) == []
    assert value(db, "select count(*) from penstock.messages where state = 'leased'") == 3


@pytest.mark.parametrize("role", ["penstock_producer", "penstock_consumer"])
def test_nobody_reads_the_outcome_of_internal_messages(
    world: dict[str, int], log_in: LogIn, role: str
) -> None:
    login = log_in(role)
    assert login.rows("select * from penstock.get_results(%s)", [world["dead"]]) == []
    for id in (world["dead"], world["leased"]):
        refused(login, "select * from penstock.get_outcome(%s)", id)


def test_a_consumer_takes_no_command_for_another_process(
    db: psycopg.Connection[Any], world: dict[str, int], log_in: LogIn
) -> None:
    consumer = log_in("penstock_consumer")
    beat = "select penstock.beat_v2('w', 'running', %s, '{\"takes_commands\": true}')"
    begun, later = "2026-01-01 00:00+00", "2026-01-02 00:00+00"
    assert consumer.value(beat, begun) is None
    refused(consumer, "select penstock.command_worker('w', 'stop')")
    db.execute("select penstock.command_worker('w', 'stop')")
    # Another process with the name of the worker neither gets the command nor takes it away.
    assert consumer.value(beat, later) is None
    assert consumer.value(beat, begun) == "stop"
