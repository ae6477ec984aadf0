"""Logins that try to run something as the owner of the schema, through all they may call.

An attacker lays out traps (`canary.sql`) where it may create objects, points its search_path there,
and calls everything. A trap that runs as another user says so, and uses the rights it has then.
Afterwards the rights of the login have not changed, and it has seen nothing secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from tests.contracts_sql.statements import claim_by

from .conftest import INCOMING_TABLE, ROLES, SCHEMAS, LogIn, Login

TRAPS = Path(__file__).with_name("canary.sql").read_text()
SECRET = "postgresql://nobody:e3b0c442@127.0.0.1:1/away"
EVERYBODY = [*ROLES, None]
INSERT = "insert into mdb_queue.messages (queue_name, payload)"
TRAP = "for each row execute function public.trap()"

# Values by type, and by the name of a parameter where that says more. Some calls succeed
# with them, and get further than those with odd values.
SENSIBLE = {
    "text": "'orders'",
    "jsonb": "'{}'",
    "bytea": "'\\x00'",
    "boolean": "true",
    "smallint": "1::smallint",
    "integer": "1",
    "bigint": "1",
    "numeric": "1",
    "double precision": "1",
    "interval": "interval '1 second'",
    "timestamp with time zone": "pg_catalog.clock_timestamp()",
    "uuid": "pg_catalog.gen_random_uuid()",
    "xid8": "'1'",
    "pg_snapshot": "'1:1:'",
    "tid": "'(0,1)'",
}
NAMED = {
    ("settings", "jsonb"): "'{\"max_attempts\": 3}'",
    ("cron", "text"): "'* * * * *'",
    ("on_conflict", "text"): "'replace'",
    ("unique_while", "text"): "'waiting'",
    ("topic", "text"): "'a.b'",
    ("state", "text"): "'running'",
    ("max_poll_seconds", "integer"): "0",
    ("gold", "text"): "'queue_minute'",
    ("rows", "jsonb"): "'[]'",
}
ODD = {
    "text": "'pg_temp.penstock_incoming''; select public.canary(''text''); --'::public.baited",
    "jsonb": """'{"queue": "pg_temp.queue", "a''b": "public.canary(1)"}'""",
}
BAIT = dict.fromkeys(
    ("text", "jsonb", "bytea", "bigint", "integer", "interval", "double precision"),
    "row(1)::public.bait",
)

# Objects in place of the table that spark_enqueue reads, each with a trap in it.
INCOMING = {
    "a view": """
        create temporary view penstock_incoming as
        select null::text as queue, '1'::jsonb as payload, null::bytea as payload_bytes,
          null::jsonb as headers, null::text as key, 0 as priority, null::text as group_key,
          null::float8 as delay_seconds, null::timestamptz as visible_at,
          null::float8 as ttl_seconds, 1 as max_attempts, '(0,1)'::tid as ctid
        from (select public.canary('view')) t""",
    "a policy": f"""{INCOMING_TABLE};
        insert into pg_temp.penstock_incoming (payload) values ('1'), ('2');
        alter table pg_temp.penstock_incoming enable row level security, force row level security;
        grant select on pg_temp.penstock_incoming to public;
        create policy trap on pg_temp.penstock_incoming using (public.canary('policy'))""",
    "a trigger and a default": f"""{INCOMING_TABLE};
        create function public.trap() returns trigger language plpgsql as $$
          begin perform public.canary('trigger'); return new; end $$;
        alter table pg_temp.penstock_incoming add trap boolean default public.canary('default');
        create trigger trap before insert or update or delete on pg_temp.penstock_incoming
          for each row execute function public.trap();
        insert into pg_temp.penstock_incoming (payload, key) values ('1', 'a')""",
    "a cast": """
        create temporary table penstock_incoming (queue text, payload public.bait,
          payload_bytes bytea, headers jsonb, key text, priority integer, group_key text,
          delay_seconds float8, visible_at timestamptz, ttl_seconds float8, max_attempts integer);
        grant select on pg_temp.penstock_incoming to public;
        insert into pg_temp.penstock_incoming (payload) values (row(1))""",
}


@pytest.fixture
def world(db: psycopg.Connection[Any]) -> None:
    db.execute("select penstock.create_queue('orders')")
    db.execute("select penstock.enqueue('orders', to_jsonb(n)) from generate_series(1, 20) n")
    db.execute("select penstock.add_service('away', %s)", [SECRET])


@pytest.fixture
def attacker(
    request: pytest.FixtureRequest, world: None, log_in: LogIn, rights: Callable[[str], Any]
) -> Iterator[Login]:
    """A login with its traps laid out. Afterwards it has gained nothing."""
    login = log_in(request.param)
    login.rows("set statement_timeout = '3s'")
    login.rows(TRAPS)
    login.rows("set search_path = pg_temp, public, pg_catalog")
    before = rights(login.name)
    login.rows("select public.canary('itself')")
    assert login.notices == [f"canary: {login.name} in itself"]
    yield login
    assert {note for note in login.notices if note.startswith("canary: ")} == {
        note for note in login.notices if note.startswith(f"canary: {login.name} in ")
    }
    assert not [note for note in login.notices if SECRET in note or "canary read" in note]
    assert rights(login.name) == before


everybody = pytest.mark.parametrize("attacker", EVERYBODY, indirect=True, ids=str)


def signatures(db: psycopg.Connection[Any]) -> list[tuple[str, str, list[str], list[str]]]:
    """Our functions except those of triggers: oid, name, parameters and their types."""
    query = """
        select p.oid::text, format('%%I.%%I', n.nspname, p.proname), coalesce(p.proargnames, '{}'),
               array(select format_type(t, null)
                     from unnest(p.proargtypes) with ordinality u (t, n) order by n)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = any (%s) and p.prorettype <> 'trigger'::regtype order by 2"""
    return db.execute(query, [SCHEMAS]).fetchall()


def arguments(names: list[str], types: list[str], values: dict[str, str]) -> str:
    """Of such values; where there is none for a type, a null of it."""

    def one(name: str, type: str) -> str:
        if values is BAIT and type in BAIT:
            return BAIT[type]  # for an implicit cast
        if values is SENSIBLE and (name, type) in NAMED:
            return f"({NAMED[name, type]})::{type}"
        if type.endswith("[]") and type[:-2] in SENSIBLE:
            return f"array[{values.get(type[:-2]) or SENSIBLE[type[:-2]]}]::{type}"
        return f"({values.get(type) or SENSIBLE.get(type) or 'null'})::{type}"

    return ", ".join(one(name, type) for name, type in zip(names, types, strict=False))


def has_a_role(login: Login) -> bool:
    return bool(login.value("select has_schema_privilege('penstock', 'usage')"))


@everybody
def test_no_function_runs_anything_of_its_caller_as_the_owner(
    db: psycopg.Connection[Any], attacker: Login
) -> None:
    may = {
        row[0]
        for row in db.execute(
            "select p.oid::text from pg_proc p where has_function_privilege(%s, p.oid, 'execute')",
            [attacker.name],
        )
    }
    called = 0
    for oid, name, names, types in signatures(db):
        padded = names[: len(types)] or [""] * len(types)
        calls = [
            f"select * from {name}({arguments(padded, types, values)})"
            for values in (SENSIBLE, ODD, BAIT)
        ]
        if oid not in may:
            with pytest.raises(InsufficientPrivilege):
                attacker.rows(calls[0])
            continue
        called += 1
        for call in calls:
            with contextlib.suppress(psycopg.Error):
                assert SECRET not in str(attacker.rows(call))
    assert (called > 10) is has_a_role(attacker)


@pytest.mark.parametrize("kind", INCOMING)
@everybody
def test_spark_enqueue_runs_nothing_of_its_caller_as_the_owner(attacker: Login, kind: str) -> None:
    call = "select * from penstock.spark_enqueue('job', 0, 0, 'orders')"
    attacker.rows(INCOMING[kind])
    with contextlib.suppress(psycopg.Error):
        attacker.rows(call)
    # It was the trap that ran, with the attacker's own rights.
    if kind in ("a view", "a cast") and attacker.value(
        "select has_schema_privilege('penstock', 'usage') and has_function_privilege("
        "'penstock.spark_enqueue(text,bigint,integer,text,text,text)', 'execute')"
    ):
        assert len(attacker.notices) > 1


@everybody
def test_statements_on_the_views_run_traps_as_their_caller(attacker: Login) -> None:
    text = claim_by("w", 5, "orders")
    for trapped in (
        "select * from mdb_queue.messages where public.canary('where ' || payload::text)",
        "update mdb_queue.messages set visible_at = now() where public.canary('where')",
        f"{INSERT} select 'orders', '1' where public.canary('select')",
        f"{INSERT} values ('orders', row(1)::public.bait)",
        "select * from mdb_queue.queues where public.canary(name)",
        "select * from mdb_queue.dead_messages where public.canary(queue_name)",
        "delete from mdb_queue.messages where id < 5 and public.canary('where')",
        text.replace("m.payload", "m.payload, public.canary('returning')"),
        "select * from penstock.queues where public.canary(name)",
    ):
        with contextlib.suppress(psycopg.Error):
            assert SECRET not in str(attacker.rows(trapped))


@everybody
def test_nobody_attaches_anything_to_what_is_ours(
    db: psycopg.Connection[Any], attacker: Login
) -> None:
    triggers = db.execute(
        "select p.oid::regproc::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = any (%s) and p.prorettype = 'trigger'::regtype",
        [SCHEMAS],
    ).fetchall()
    assert len(triggers) > 5
    attacker.rows(
        "create function public.trap() returns trigger language plpgsql as 'begin return null; end'"
    )
    # What penstock._forget_pgmq_queue would run, if the attacker could have it run.
    attacker.rows(
        "create temporary table bait_table (key text, sent_register text, notified_register text)"
    )
    role = attacker.name
    attacker.rows(
        "insert into bait_table values ('x', %s, null)",
        f"pg_temp.none; alter role {role} superuser",
    )
    for statement_ in [
        *(
            f"create trigger t after delete on bait_table for each row execute function {name}()"
            for (name,) in triggers
        ),
        f"create trigger t before insert on penstock.queue {TRAP}",
        f"create trigger t instead of insert on mdb_queue.messages {TRAP}",
        "create rule r as on insert to mdb_queue.messages do also select public.canary('rule')",
        "create policy p on penstock.queue using (public.canary('policy'))",
        "alter table penstock.queue add trap boolean default public.canary('default')",
        "alter view mdb_queue.messages alter queue_name set default public.canary('default')",
        "create index on penstock.queue ((public.canary(name)))",
        "create function penstock.enqueue(text) returns bigint language sql as 'select 1::bigint'",
        "create table penstock.mine ()",
        "create view mdb_queue.mine as select 1",
        "create table pgmq.mine ()",
        "alter function penstock.enqueue_many set search_path = public",
        "grant penstock_operator to current_user",
        "set role penstock",
        "select dsn from penstock.service",
        "select * from penstock.api_key",
        "select * from penstock.server_secret",
        "copy penstock.service to stdout",
    ]:
        with pytest.raises(InsufficientPrivilege):  # noqa: PT012
            attacker.rows(statement_)
            pytest.fail(statement_)
    with contextlib.suppress(psycopg.Error):
        attacker.rows("delete from bait_table")
