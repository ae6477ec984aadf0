"""Batches of plain messages, made and ended by SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg

Connect: TypeAlias = Callable[..., psycopg.Connection[Any]]
Db: TypeAlias = psycopg.Connection[Any]


def make(db: Db, count: int, *, queue: str = "work", seal: bool = True) -> tuple[int, list[int]]:
    """A batch of plain messages, in SQL: its id, and the ids of its members."""
    follow = "jsonb_build_array(jsonb_build_object('queue', 'after', 'payload', %s::text))"
    id = value(
        db,
        f"select penstock.create_batch('test', {follow}, {follow}, {follow})",
        "success",
        "failure",
        "finish",
    )
    members = db.execute(
        "select penstock.add_to_batch(%s, %s, "
        "array(select to_jsonb(n) from generate_series(1, %s) n))",
        [id, queue, count],
    ).fetchall()
    if seal:
        db.execute("select penstock.seal_batch(%s)", [id])
    return id, [row[0] for row in members]


def value(db: Db, sql: str, *params: Any) -> Any:
    row = db.execute(sql, params).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row[0]


def claim(db: Db, count: int = 100, queue: str = "work") -> list[tuple[int, int]]:
    found = db.execute("select id, token from penstock.claim(%s, %s)", [queue, count])
    return [(row[0], row[1]) for row in found]


def follows(db: Db) -> list[str]:
    """What was enqueued by finished batches."""
    db.execute("select penstock.finish_batches()")
    rows = db.execute(
        "select payload #>> '{}' from penstock.messages where queue = 'after' order by id"
    )
    return [row[0] for row in rows]


def counts(db: Db, id: int) -> dict[str, int]:
    row = db.execute(
        "select total, pending, done, dead, expired, cancelled from penstock.get_batch(%s)", [id]
    ).fetchone()
    assert row is not None
    names = ("total", "pending", "done", "dead", "expired", "cancelled")
    return {name: n for name, n in zip(names, row, strict=True) if n or name == "pending"}


def ack_many(db: Db, leases: list[tuple[int, int]]) -> None:
    ids, tokens = zip(*leases, strict=True)
    found = db.execute("select penstock.ack_many(%s, %s)", [list(ids), list(tokens)]).fetchall()
    assert {row[0] for row in found} == set(ids)
