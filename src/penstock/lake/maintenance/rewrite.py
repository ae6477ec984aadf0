"""Rewrites PostgreSQL's tables, so that its data files lose the bytes of erased rows.

A deleted row stays in the free space of its page until the space is used again. VACUUM FULL writes
a table and its indexes into new files. It locks one table at a time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import PermissionDeniedError, translated
from penstock.lake.parts import Parts
from penstock.spark.options import Service
from penstock.spark.service_connection import connect_to
from penstock.sql.loader import load_query

# How long to wait in all for transactions that use the tables, or may still read deleted rows.
WAIT_SECONDS: Final = 60.0
# How long to wait for one lock, because others wait behind it.
LOCK_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The number of rewritten tables, and what open transactions have prevented.

    `kept` has the deleted rows that they may still read, by table. `locked` are the tables that
    they use.
    """

    tables: int
    kept: dict[str, int]
    locked: tuple[str, ...]
    checkpoint: bool

    @property
    def is_complete(self) -> bool:
        return not self.kept and not self.locked


def require_rewritable(service: Service) -> None:
    """The owner of a database may rewrite all of its tables, those with statistics included."""
    with translated(), _connected(service) as connection:
        row = connection.execute(load_query("lake/may_rewrite").encode()).fetchone()
    may, database, role = row or (False, "", "")
    if not may:
        raise PermissionDeniedError(
            f"role {role} cannot rewrite the tables of database {database}",
            hint="Nothing was erased. Run the command as the owner of the database or as a "
            "superuser, or without --rewrite.",
        )


def rewrite(service: Service, published: Sequence[str], parts: Parts) -> Rewritten:
    """Rewrites the tables of the schema, published tables, and PostgreSQL's statistics."""
    deadline = time.monotonic() + WAIT_SECONDS
    kept: dict[str, int] = {}
    locked = []
    with translated(), _connected(service) as connection:
        query = load_query("lake/tables_to_rewrite").encode()
        tables = connection.execute(query, [list(published)]).fetchall()
        for schema, name in tables:
            parts.begin(f"{schema}.{name}")
            rows = _rewrite(connection, sql.Identifier(schema, name))
            while rows != 0 and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                rows = _rewrite(connection, sql.Identifier(schema, name))
            if rows is None:
                locked.append(f"{schema}.{name}")
            elif rows:
                kept[f"{schema}.{name}"] = rows
        row = connection.execute(b"select pg_has_role('pg_checkpoint', 'usage')").fetchone()
        may_checkpoint = row == (True,)
        if may_checkpoint:
            connection.execute(b"checkpoint")
    return Rewritten(len(tables) - len(locked), kept, tuple(locked), may_checkpoint)


def _connected(service: Service) -> psycopg.Connection[Any]:
    """With a limit for locks, which a pooler would not keep: the rewrite needs a direct address."""
    address = service.address()
    options = conninfo_to_dict(address).get("options") or ""
    limit = f"{options} -c lock_timeout={LOCK_SECONDS * 1000:.0f}"
    return connect_to(make_conninfo(address, options=limit.strip()))


def _rewrite(connection: psycopg.Connection[Any], table: sql.Identifier) -> int | None:
    """The deleted rows that were kept, or None if the table is in use.

    VERBOSE reports them, first of all in its detail.
    """
    kept = 0

    def read(notice: psycopg.errors.Diagnostic) -> None:
        nonlocal kept
        if found := re.match(r"(\d+) ", notice.message_detail or ""):
            kept += int(found[1])

    connection.add_notice_handler(read)
    try:
        connection.execute(sql.SQL("vacuum (full, verbose) {}").format(table))
    except psycopg.errors.LockNotAvailable:
        return None
    finally:
        connection.remove_notice_handler(read)
    return kept
