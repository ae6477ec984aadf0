"""Searches everything that a lake and its database store for a text, and for its hex form."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Sql = Callable[..., list[Any]]
# Tables of every schema, with PostgreSQL's own: its statistics have values of the rows.
_TABLES = """
select oid::regclass::text from pg_class
where relkind in ('r', 'm') and relpersistence <> 't' and not relisshared
"""


def forms(text: str) -> list[str]:
    """PostgreSQL shows bytes in hexadecimal digits."""
    return [text, text.encode().hex()]


def found_in_files(root: Path, text: str) -> list[str]:
    """Every file of a lake whose bytes, or whose decoded rows, have the text."""
    return _search(root, text)


def found_in_tables(sql: Sql, text: str) -> set[str]:
    """Every table of the database with rows that have the text."""
    query = "select exists (select from {} t where t::text like any (%s))"
    patterns = [f"%{form}%" for form in forms(text)]
    names = [name for (name,) in sql(_TABLES)]
    assert len(names) > 100
    return {name for name in names if sql(query.format(name), patterns) == [(True,)]}


def found_in_server_files(sql: Sql, text: str) -> list[str]:
    """Every file of the server's data directory, apart from its WAL, with bytes of the text."""
    sql("checkpoint")
    ((directory,),) = sql("select current_setting('data_directory')")
    return _search(Path(directory), text, without="pg_wal")


def _search(root: Path, text: str, without: str | None = None) -> list[str]:
    wanted = [form.encode() for form in forms(text)]
    found, count = [], 0
    files = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    for file in files:
        path = file.relative_to(root)
        if path.parts[0] == without or not file.is_file():
            continue
        try:
            content = file.read_bytes()
        except FileNotFoundError:  # of another test's database, which was dropped meanwhile
            continue
        if file.suffix == ".parquet":
            content += str(pq.ParquetFile(file).read().to_pylist()).encode()
        count += len(content)
        if any(each in content for each in wanted):
            found.append(str(path))
    print(f"{text!r}: {len(found)} files have it, of {count:,} bytes in {root.name}")
    return found
