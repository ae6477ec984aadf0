"""Databases with all our schemas in them, and logins that are members of one role or of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.conftest import Connect
from tests.contracts_sql.conftest import pgmq_dsn, pgmq_template
from tests.engine.conftest import wait_for

from penstock.db.migrations import Migrator

__all__ = ["pgmq_dsn", "pgmq_template"]

SCHEMAS = ["penstock", "mdb_queue", "pgmq"]
# Where clients of version 2 copy messages to, for spark_enqueue.
INCOMING_TABLE = Path(__file__).with_name("incoming.sql").read_text("utf-8")
ROLES = ["penstock_producer", "penstock_consumer", "penstock_operator"]


@dataclass
class Login:
    """A user with its own session, and the notices that the session got."""

    name: str
    session: psycopg.Connection[Any]
    notices: list[str] = field(default_factory=list)

    def rows(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        cursor = self.session.execute(statement.encode(), arguments or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *arguments: Any) -> Any:
        [[answer]] = self.rows(statement, *arguments)
        return answer


LogIn = Callable[[str | None], Login]


@pytest.fixture
def owned_by_plain_user(empty_dsn: str, connect: Connect) -> Iterator[str]:
    """A database whose schemas belong to a user that is not a superuser."""
    owner = f"owner_{uuid4().hex[:12]}"
    admin = connect(empty_dsn)
    admin.execute(f"create role {owner} login")
    admin.execute(f"grant all on database {admin.info.dbname} to {owner}")
    migrating = connect(make_conninfo(empty_dsn, user=owner))
    Migrator(migrating, contracts=["pgmq"]).up()
    migrating.close()
    yield empty_dsn
    admin.execute(f"drop owned by {owner} cascade")
    admin.execute(f"drop role {owner}")


@pytest.fixture(params=["superuser", "plain user"])
def dsn(request: pytest.FixtureRequest) -> str:
    """All our schemas, owned by a superuser and by a user that is none."""
    name = {"superuser": "pgmq_dsn", "plain user": "owned_by_plain_user"}[request.param]
    return str(request.getfixturevalue(name))


@pytest.fixture
def db(connect: Connect) -> psycopg.Connection[Any]:
    """A superuser's session, which does not look for anything where others may create it."""
    session = connect()
    session.execute("set search_path = pg_catalog, pg_temp")
    return session


@pytest.fixture
def rights(db: psycopg.Connection[Any]) -> Callable[[str], Any]:
    """What a role is, whose member it is, and everything that was granted in our schemas."""
    query = """
        select (select to_jsonb(r) - 'oid' from pg_roles r where r.rolname = %(name)s),
          (select jsonb_agg(jsonb_build_array(m.roleid, m.member, m.admin_option) order by m.roleid)
           from pg_auth_members m where %(name)s::regrole in (m.member, m.roleid)),
          (select jsonb_agg(jsonb_build_array(n.nspname, n.nspowner, n.nspacl) order by n.nspname)
           from pg_namespace n where n.nspname = any (%(schemas)s)),
          (select jsonb_agg(jsonb_build_array(p.oid, p.proowner, p.proacl, p.prosrc, p.prosecdef)
                            order by p.oid)
           from pg_proc p join pg_namespace n on n.oid = p.pronamespace
           where n.nspname = any (%(schemas)s)),
          -- Queues come and go with their sequences and views.
          (select jsonb_agg(jsonb_build_array(c.relname, c.relowner, c.relacl) order by c.oid)
           from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = any (%(schemas)s) and c.relkind in ('r', 'v')
             and c.relname !~ '^[qa]_')"""

    def rights(name: str) -> Any:
        return db.execute(query, {"name": name, "schemas": SCHEMAS}).fetchone()

    return rights


@pytest.fixture
def log_in(dsn: str, db: psycopg.Connection[Any], connect: Connect) -> Iterator[LogIn]:
    """Makes a user that is a member of a role, or of none, and logs in as that user."""
    made: list[Login] = []

    def log_in(role: str | None) -> Login:
        name = f"login_{uuid4().hex[:12]}"
        db.execute(f"create role {name} login")
        if role is not None:
            db.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
        # What PostgreSQL 14 and older allowed all roles to do.
        db.execute(f"grant create on schema public to {name}")
        login = Login(name, connect(make_conninfo(dsn, user=name)))
        login.session.add_notice_handler(
            lambda diagnostic: login.notices.append(diagnostic.message_primary or "")
        )
        made.append(login)
        return login

    yield log_in
    for login in made:
        _end(login.session, db)
        db.execute(f"drop owned by {login.name} cascade")
        db.execute(f"drop role {login.name}")


def _end(session: psycopg.Connection[Any], db: psycopg.Connection[Any]) -> None:
    """A session that ends drops its temporary objects. That could deadlock with later ones."""
    pid = session.info.backend_pid
    session.close()
    query = "select from pg_stat_activity where pid = %s"
    wait_for(lambda: not db.execute(query, [pid]).fetchall(), "the session has ended")
