"""What other people do to the database while a queue works: hold it, read it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

_BYSTANDER = "create table if not exists public.bystander (id integer)"
_PINS = {
    "reader": "begin isolation level repeatable read; select * from public.bystander",
    "xid": "begin; insert into public.bystander values (1)",
}
_TABLES = """
select format('%%I.%%I', n.nspname, c.relname)
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname || '.' || c.relname like any (%s)
"""
READERS = 4
READ_PAUSE_SECONDS = 0.02


@contextmanager
def pinned(dsn: str, by: str) -> Iterator[None]:
    """Nothing that dies while the block lasts can be vacuumed."""
    with _connect(dsn) as holder:
        holder.execute(_BYSTANDER)
        holder.execute(_PINS[by])
        yield
        holder.execute("rollback")


@contextmanager
def readers(dsn: str, relations: Sequence[str]) -> Iterator[None]:
    """Four sessions that count the rows of the queue's tables, again and again."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_read, args=(dsn, list(relations), over)) for _ in range(READERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _read(dsn: str, relations: list[str], over: threading.Event) -> None:
    with _connect(dsn) as reader:
        while not over.is_set():
            tables = [name for (name,) in reader.execute(_TABLES, [relations])]
            # A table may be truncated or dropped under a reader's hands; it reads on.
            with contextlib.suppress(psycopg.Error):
                reader.execute("begin isolation level repeatable read")
                for table in tables:
                    reader.execute(f"select count(*) from {table}")
            reader.execute("rollback")
            over.wait(READ_PAUSE_SECONDS)


def _connect(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(dsn, autocommit=True, application_name="penstock-peers")
