"""What the catalog says about functions that run with the rights of their owner.

They and every function that they call run as the owner of the schema, often a superuser. So none of
them may resolve a name, run a text or follow a setting that its caller can choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from .conftest import SCHEMAS

# Dynamic statements, each with the reason why no caller can choose its text. `%I` quotes a name and
# `%L` a value, with any characters. A new one fails the test below until it is reviewed.
REVIEWED = {
    "penstock._any_ready": "the number of a segment",
    "penstock._clear_charts": "the number of a slot",
    "penstock._count_table": "texts that penstock._count writes",
    "penstock._drop_history": "the number of a slot",
    "penstock._forget_pgmq_queue": "%I, and sequences from one of our tables",
    "penstock._free_segment": "the number of a segment",
    "penstock._has_landed": "the number of a slot",
    "penstock._has_writers": "the number of a segment",
    "penstock._holds_rows": "the number of a segment",
    "penstock._register": "%I",
    "penstock._unlogged_register": "%I",
    "penstock.analyze_history": "tables of our schema, from the catalog",
    "penstock.drop_queue": "sequences from one of our tables",
    "penstock.publish_gold": "one of four tables, and their columns from the catalog",
    "pgmq._make_views": "%I, and the number of a queue",
}
# Settings of PostgreSQL that no caller can forge: it checks the membership when `role` is set, and
# the others say something about the transaction or the server only.
TRUE_SETTINGS = {
    "role", "transaction_isolation", "lock_timeout", "block_size", "server_version_num",
}  # fmt: skip


@dataclass(frozen=True)
class Function:
    signature: str
    name: str
    definer: bool
    source: str  # without comments
    config: list[str]

    @property
    def code(self) -> str:
        """The source with empty literals: their content is not code."""
        return re.sub(r"'(?:[^']|'')*'", "''", self.source)

    @property
    def calls(self) -> set[str]:
        return set(re.findall(r"\b((?:penstock|mdb_queue|pgmq)\.\w+)\s*\(", self.code))

    @property
    def dynamic(self) -> list[str]:
        """The texts of statements that stand alone, as all our statements do."""
        return re.findall(r"^\s*execute\b(.*?);$", self.source, re.S | re.I | re.M)

    @property
    def runs_text(self) -> int:
        """How often it runs a text as a statement, in any way that PostgreSQL has for that."""
        ways = r"\bexecute\b|\b(?:query|cursor|database|schema|table)_to_xml\w*\b|\bts_stat\b"
        return len(re.findall(rf"{ways}|\bts_rewrite\b|\bdblink\w*\b", self.code, re.I))

    @property
    def settings(self) -> set[str]:
        found = set(re.findall(r"(?<!\w)current_setting\('([^']*)'", self.source))
        found |= {f"mdb_queue.{n}" for n in re.findall(r"\._setting\('([^']*)'", self.source)}
        return found - {"mdb_queue."}  # mdb_queue._setting itself


def functions(db: psycopg.Connection[Any]) -> list[Function]:
    query = """
        select p.oid::regprocedure::text, n.nspname || '.' || p.proname, p.prosecdef, p.prosrc,
               coalesce(p.proconfig, '{}')
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = any (%s) order by 1"""
    rows = db.execute(query, [SCHEMAS]).fetchall()
    return [Function(s, n, d, re.sub(r"--[^\n]*", "", t), c) for s, n, d, t, c in rows]


def fired_by_tables(db: psycopg.Connection[Any]) -> set[str]:
    """The functions of triggers on our tables and views: our statements call them unseen."""
    query = """
        select distinct format('%%s.%%s', n.nspname, p.proname)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
        join pg_namespace n on n.oid = p.pronamespace
        where c.relnamespace = any (%s::regnamespace[]) and not t.tgisinternal"""
    return {name for (name,) in db.execute(query, [SCHEMAS]).fetchall()}


def run_by_the_owner(all_functions: list[Function]) -> Iterator[Function]:
    """Definers, and what they call: the rights are passed on."""
    by_name: dict[str, list[Function]] = {}
    for function in all_functions:
        by_name.setdefault(function.name, []).append(function)
    waiting = [f.name for f in all_functions if f.definer]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield from by_name.get(name, [])
            waiting += [called for f in by_name.get(name, []) for called in f.calls]


@pytest.fixture
def dsn(pgmq_dsn: str) -> str:
    return pgmq_dsn


@pytest.fixture
def owners(db: psycopg.Connection[Any]) -> list[Function]:
    found = list(run_by_the_owner(functions(db)))
    assert len(found) > 300
    assert sum(f.definer for f in found) > 150
    return found


def test_every_definer_pins_its_search_path(owners: list[Function]) -> None:
    """With pg_temp last: else temporary tables would come before all others."""
    pinned = "search_path=pg_catalog, pg_temp"
    assert [f.signature for f in owners if f.definer and pinned not in f.config] == []


def test_every_trigger_on_our_tables_and_views_is_a_definers(
    db: psycopg.Connection[Any], owners: list[Function]
) -> None:
    """Others would look names up in the search_path of the session that commits."""
    fired = fired_by_tables(db)
    assert len(fired) > 5
    assert fired <= {f.name for f in owners if f.definer}


def test_none_mentions_a_temporary_relation(owners: list[Function]) -> None:
    temporary = re.compile(r"pg_temp|pg_my_temp_schema|\btemp\b|\btemporary\b", re.I)
    assert [f.signature for f in owners if temporary.search(f.source)] == []


def test_spark_enqueue_reads_its_callers_table_as_its_caller(db: psycopg.Connection[Any]) -> None:
    reads = [f for f in functions(db) if "pg_temp.penstock_incoming" in f.source]
    assert [f.name for f in reads] == ["penstock._spark_hand_on", "penstock.spark_enqueue"]
    assert [f.definer for f in reads] == [False, False]


def test_none_executes_a_text_that_a_caller_may_choose(owners: list[Function]) -> None:
    found = {f.name for f in owners if f.runs_text}
    assert found == REVIEWED.keys()
    for function in owners:
        assert len(function.dynamic) == function.runs_text, function.signature
        for text in function.dynamic:
            assert re.match(r"\s*(format|replace)\('", text), (function.signature, text)


def test_every_setting_that_they_read_is_in_the_test_of_settings(owners: list[Function]) -> None:
    from .test_settings import HOSTILE

    read = {name for f in owners for name in f.settings}
    assert read - TRUE_SETTINGS == HOSTILE.keys()


def test_only_checks_of_privileges_ask_for_the_role(owners: list[Function]) -> None:
    checks = {"penstock._is_admin", "penstock._check_may_enqueue"}
    assert {f.name for f in owners if "role" in f.settings} == checks
    decide = re.compile(r"has_\w+_privilege|pg_has_role|session_user|current_user|current_role")
    assert {f.name for f in owners if decide.search(f.source)} == {
        *checks,
        "penstock.check_grants",
    }


def test_none_takes_a_type_that_a_caller_may_define(db: psycopg.Connection[Any]) -> None:
    """A polymorphic parameter brings the operators of its type along, reg* looks names up."""
    query = """
        select p.oid::regprocedure::text
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = any (%s) and p.prosecdef and exists (
          select from unnest(p.proargtypes) t join pg_type y on y.oid = t
          where y.typtype = 'p' or y.typname ~ '^_?reg'
             or y.typnamespace <> all (%s::regnamespace[]))"""
    ours = [*SCHEMAS, "pg_catalog"]
    assert db.execute(query, [SCHEMAS, ours]).fetchall() == []


def test_public_may_do_nothing(db: psycopg.Connection[Any]) -> None:
    query = """
        select p.oid::regprocedure::text
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        where n.nspname = any (%(schemas)s) and a.grantee = 0
        union all
        select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
        cross join lateral aclexplode(c.relacl) a
        where n.nspname = any (%(schemas)s) and a.grantee = 0
        union all
        select n.nspname from pg_namespace n cross join lateral aclexplode(n.nspacl) a
        where n.nspname = any (%(schemas)s)
          and (a.grantee = 0 or a.privilege_type = 'CREATE' and a.grantee <> n.nspowner)"""
    assert db.execute(query, {"schemas": SCHEMAS}).fetchall() == []
